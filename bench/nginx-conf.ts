/** nginx as the floor: a hop that does nothing, with everything off that costs. */

export interface NginxPlace {
  dir: string;
  port: number;
  upstreamPort: number;
  asRoot: boolean;
}

export function nginxConf({ dir, port, upstreamPort, asRoot }: NginxPlace): string {
  // The temp folder belongs to root then, and workers would otherwise run as another user.
  const user = asRoot ? "user root;" : "";
  return `
${user}
worker_processes 1;
daemon off;
pid ${dir}/nginx.pid;
error_log ${dir}/nginx-error.log error;
events { worker_connections 4096; }
http {
  access_log off;
  client_body_temp_path ${dir}/nginx-body;
  proxy_temp_path ${dir}/nginx-proxy;
  fastcgi_temp_path ${dir}/nginx-fastcgi;
  uwsgi_temp_path ${dir}/nginx-uwsgi;
  scgi_temp_path ${dir}/nginx-scgi;
  keepalive_requests 1000000000;
  keepalive_timeout 600s;
  tcp_nodelay on;
  # Larger than any body of the bench, so that nginx never writes one to disk.
  client_max_body_size 4m;
  client_body_buffer_size 1m;
  upstream hop {
    server 127.0.0.1:${upstreamPort};
    keepalive 1024;
    keepalive_requests 1000000000;
    keepalive_timeout 600s;
  }
  server {
    listen 127.0.0.1:${port};
    location / {
      proxy_pass http://hop;
      proxy_http_version 1.1;
      proxy_set_header Connection "";
      proxy_buffering off;
      proxy_read_timeout 600s;
    }
  }
}
`;
}
