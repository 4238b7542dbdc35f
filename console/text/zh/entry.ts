/** Chinese texts: sign-in and registration. */

import type { Area } from "../catalogue.ts";

export const entry: Area<"entry"> = {
  email: "电子邮箱",
  password: "密码",
  passwordHint: (least) => `至少 ${least} 个字符。建议使用由多个随机词组成的密码短语。`,
  signIn: {
    title: "登录",
    submit: "登录",
    forgot: "忘记密码？",
    register: "还没有账户？立即创建",
    invite: "还没有账户？请向管理员申请邀请。",
    closed: "还没有账户？注册已关闭，请联系管理员。",
    unclaimed: {
      title: "还没有管理员",
      text: "请打开网关启动时输出的链接。链接仅可使用一次，一小时后过期。重启网关可获取新链接。",
    },
  },
  providers: {
    signIn: (provider) => `使用 ${provider} 登录`,
    or: "或使用密码：",
    asAdmin: "以管理员身份使用密码登录",
    finishing: "正在登录…",
    failed: "登录失败",
    notSignedIn: "您尚未登录",
  },
  code: {
    title: "两步验证",
    about: "请输入身份验证器应用中的六位验证码，或恢复码。",
    label: "验证码",
    back: "使用其他账户登录",
  },
  claim: {
    title: "创建管理员账户",
    about: "请设置首位管理员的邮箱和密码。",
    submit: "创建管理员",
  },
  register: {
    title: "创建账户",
    about: "有了账户，您就可以创建 API 密钥并查看其用量。",
    aboutMail: "我们会向您的邮箱发送一个链接。打开链接设置密码，即可创建账户。",
    submit: "创建账户",
    submitMail: "发送链接",
    closed: "注册已关闭。请向管理员申请账户。",
    invite: "注册需要邀请。请向管理员申请链接。",
    haveOne: "已有账户？登录",
    sent: {
      title: "请查收邮件",
      text: (email) => `我们已向 ${email} 发送邮件。请打开其中的链接设置密码。如未收到，请检查垃圾邮件。`,
    },
  },
  join: {
    title: "接受邀请",
    about: (email) => `此邀请发给 ${email}。请设置密码以创建账户。`,
    submit: "创建账户",
  },
  forgot: {
    title: "忘记密码？",
    about: "我们会向您的邮箱发送一个链接，一小时内可使用一次，用于设置新密码。",
    submit: "发送链接",
    sent: {
      title: "请查收邮件",
      text: (email) => `如果 ${email} 对应的账户存在，链接已发送。如未收到，请检查垃圾邮件。`,
    },
    noMail: "此网关无法发送邮件。请向管理员申请密码重置链接。",
    back: "返回登录",
  },
  reset: {
    title: "设置新密码",
    about: (email) => `用于 ${email}。所有浏览器都会退出登录，您的个人访问令牌也会被吊销。`,
    submit: "保存密码",
    access: {
      keys: "要吊销的 API 密钥",
      isNew: "新",
      created: (when) => `创建于 ${when}`,
      rotated: (when) => `轮换于 ${when}`,
      used: (when) => `最近使用于 ${when}`,
      neverUsed: "从未使用",
      confirmed: (when) =>
        `未选中的 API 密钥继续有效。“新”表示在您上次确认此邮箱（${when}）之后创建或轮换。请吊销所有您不认识的密钥。`,
      neverConfirmed:
        "未选中的 API 密钥继续有效。此邮箱此前从未确认过，因此所有密钥都标记为新。请吊销所有您不认识的密钥。",
      allKeys: (count) => `吊销全部 ${count} 个 API 密钥`,
      sessions: (count) => `${count} 个会话`,
      tokens: (count) => `${count} 个令牌`,
      ending: (what) => `${what.replace("和", "和 ")}将失效`,
      token: (name) => `令牌 ${name}`,
      secondFactor: "两步验证保持启用。如果不是您启用的，请联系管理员停用。启用时间：",
    },
    done: {
      title: "密码已更改",
      text: "请使用新密码登录。",
      keys: (count) => `已吊销 ${count} 个 API 密钥。`,
    },
  },
  verify: {
    title: "验证邮箱",
    about: (email) => `请为 ${email} 设置密码，以创建您的账户。`,
    submit: "验证并登录",
  },
  link: {
    title: "使用链接登录",
    about: (email) => `此链接将以 ${email} 的身份登录，只能使用一次。`,
    submit: "登录",
  },
  linkAccount: {
    title: "关联账户",
    about: (provider, email) =>
      `${provider} 已验证 ${email}，此邮箱在本网关已有账户。请证明该账户属于您：其密钥、余额和角色保持不变，此后您通过 ${provider} 登录。`,
    password: "账户密码",
    submit: "关联并登录",
    mail: "改为向此邮箱发送链接",
    mailHint: "管理员只能使用密码关联。",
    noPassword: "没有密码？请向管理员申请登录链接，然后在个人资料中关联账户。",
    sent: {
      title: "请查收邮件",
      text: (email) =>
        `如果该账户可以通过邮件关联，链接已发送至 ${email}。请在登录后的十分钟内，使用当前浏览器打开。如未收到，请检查垃圾邮件。`,
      back: "改为输入密码",
    },
    confirm: (provider, email) =>
      `账户 ${email} 将关联到您在 ${provider} 的登录。所有其他浏览器都会退出登录，个人访问令牌会被吊销。API 密钥继续有效，请随后检查。`,
    expired: {
      title: "此次登录已过期",
      text: "请在登录后的十分钟内，使用同一浏览器关联账户，且只能关联一次。如果您打开了邮件中的链接，请使用登录时的浏览器打开；否则请重新登录。",
    },
  },
  insecure: {
    title: "此连接未加密",
    text: (origin) =>
      `访问 ${origin} 的网络路径上，他人可能读取您的密码。请通过 https 打开网关（使用反向代理，并将其地址设为 PUBLIC_URL），或在本机使用 http://localhost，例如通过 ssh -L。`,
  },
  broken: {
    title: "链接不完整",
    text: "链接缺少一部分。请重新打开，或完整复制链接。",
    worthless: "此链接已失效",
  },
};
