/**
 * Writes container images as an archive, without a daemon. The archive has the OCI layout (podman, skopeo, containerd,
 * Docker 25 and later) and beside it the `manifest.json` that older versions of Docker read.
 */

import { gzip } from "../archive/compress.ts";
import { type TarEntry, writeTar } from "../archive/tar.ts";
import { sha256 } from "../digest.ts";

export interface ImagePlatform {
  /** As the OCI specification names it: `amd64`, `arm64`. */
  readonly architecture: "amd64" | "arm64";
  readonly files: readonly TarEntry[];
}

export interface ImageConfig {
  readonly Env: readonly string[];
  readonly Entrypoint: readonly string[];
  readonly Cmd: readonly string[];
  readonly User: string;
  readonly WorkingDir: string;
  readonly ExposedPorts: Readonly<Record<string, object>>;
  readonly Volumes: Readonly<Record<string, object>>;
  readonly Labels: Readonly<Record<string, string>>;
  /** Not in the OCI specification. Docker reads it in both formats, podman in that of Docker only. */
  readonly Healthcheck: object;
  readonly StopSignal: string;
}

export interface ImageOptions {
  readonly name: string;
  readonly tag: string;
  readonly timeSeconds: number;
  readonly config: ImageConfig;
}

interface Descriptor {
  readonly mediaType: string;
  readonly digest: string;
  readonly size: number;
}

const MEDIA_TYPES = {
  config: "application/vnd.oci.image.config.v1+json",
  index: "application/vnd.oci.image.index.v1+json",
  layer: "application/vnd.oci.image.layer.v1.tar+gzip",
  manifest: "application/vnd.oci.image.manifest.v1+json",
};

/** Collects the blobs of an archive, each under its digest. */
class BlobFolder {
  readonly #blobs = new Map<string, Uint8Array>();

  add(mediaType: string, content: Uint8Array): Descriptor {
    const hex = sha256(content);
    this.#blobs.set(hex, content);
    return { mediaType, digest: `sha256:${hex}`, size: content.length };
  }

  addJson(mediaType: string, value: object): Descriptor {
    return this.add(mediaType, encodeJson(value));
  }

  listEntries(): TarEntry[] {
    return [...this.#blobs].map(([hex, content]) => file(`blobs/sha256/${hex}`, content));
  }
}

/** The bytes of the archive, and the compressed bytes of each platform: what a node of a cluster downloads. */
export function writeImage(
  platforms: readonly ImagePlatform[],
  options: ImageOptions,
): { archive: Buffer; layerBytes: Readonly<Record<string, number>> } {
  const { name, tag, timeSeconds } = options;
  const blobs = new BlobFolder();
  const images = platforms.map((platform) => addPlatform(platform, options, blobs));
  const index = blobs.addJson(MEDIA_TYPES.index, {
    schemaVersion: 2,
    mediaType: MEDIA_TYPES.index,
    manifests: images.map(({ manifest, architecture }) => ({
      ...manifest,
      platform: { architecture, os: "linux" },
    })),
  });
  const annotations = {
    "io.containerd.image.name": `docker.io/library/${name}:${tag}`,
    "org.opencontainers.image.ref.name": tag,
  };
  const entries = [
    ...blobs.listEntries(),
    json("oci-layout", { imageLayoutVersion: "1.0.0" }),
    json("index.json", {
      schemaVersion: 2,
      mediaType: MEDIA_TYPES.index,
      manifests: [{ ...index, annotations }],
    }),
    json(
      "manifest.json",
      images.map(({ architecture, config, layer }, position) => ({
        Config: blobPath(config),
        // Docker of old keeps one image for each tag, so the first platform has the plain one.
        RepoTags: [...(position === 0 ? [`${name}:${tag}`] : []), `${name}:${tag}-${architecture}`],
        Layers: [blobPath(layer)],
      })),
    ),
  ];
  return {
    archive: writeTar(entries, { timeSeconds }),
    layerBytes: Object.fromEntries(images.map(({ architecture, layer }) => [architecture, layer.size])),
  };
}

function addPlatform(
  { architecture, files }: ImagePlatform,
  { config, timeSeconds }: ImageOptions,
  blobs: BlobFolder,
) {
  const tar = writeTar(files, { timeSeconds });
  const layer = blobs.add(MEDIA_TYPES.layer, gzip(tar));
  const created = new Date(timeSeconds * 1_000).toISOString();
  const configBlob = blobs.addJson(MEDIA_TYPES.config, {
    created,
    architecture,
    os: "linux",
    config,
    rootfs: { type: "layers", diff_ids: [`sha256:${sha256(tar)}`] },
    history: [{ created, created_by: "model-gateway release" }],
  });
  const manifest = blobs.addJson(MEDIA_TYPES.manifest, {
    schemaVersion: 2,
    mediaType: MEDIA_TYPES.manifest,
    config: configBlob,
    layers: [layer],
    annotations: config.Labels,
  });
  return { architecture, manifest, config: configBlob, layer };
}

function blobPath({ digest }: Descriptor): string {
  return `blobs/${digest.replace(":", "/")}`;
}

function file(path: string, content: Uint8Array): TarEntry {
  return { kind: "file", path, mode: 0o644, content };
}

function json(path: string, value: object): TarEntry {
  return file(path, encodeJson(value));
}

function encodeJson(value: object): Buffer {
  return Buffer.from(JSON.stringify(value));
}
