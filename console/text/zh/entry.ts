import type { Area } from "../catalogue.ts";

export const entry: Area<"entry"> = {
  email: "电子邮箱",
  password: "密码",
  passwordHint: (least) => `至少 ${least} 个字符。几个只有您会放在一起的词就很好。`,
  signIn: {
    title: "登录",
    submit: "登录",
    forgot: "忘记密码？",
    register: "还没有账户？立即创建",
    invite: "还没有账户？请向管理员索取邀请。",
    closed: "还没有账户？注册已关闭，请联系管理员。",
    unclaimed: {
      title: "还没有管理员",
      text: "请打开网关启动时显示的链接。该链接只能使用一次，一小时内有效；重新启动会生成新的链接。",
    },
  },
  code: {
    title: "输入验证码",
    about: "打开您的身份验证器应用，输入显示的六位数字。也可以使用恢复码。",
    label: "验证码",
    back: "使用其他账户登录",
  },
  claim: {
    title: "成为管理员",
    about: "您持有首次启动的一次性链接。请选择用于登录的邮箱和密码。",
    submit: "创建管理员",
  },
  register: {
    title: "创建账户",
    about: "有了账户，您就可以创建 API 密钥并查看其用量。",
    aboutMail: "我们会向您的邮箱发送一个链接。打开链接设置密码，即可创建账户。",
    submit: "创建账户",
    submitMail: "发送链接",
    closed: "注册已关闭。请向管理员申请账户。",
    invite: "注册需要邀请。请向管理员索取链接。",
    haveOne: "已有账户？登录",
    sent: {
      title: "请查看您的邮箱",
      text: (email) =>
        `我们已向 ${email} 发送邮件。请打开其中的链接设置密码。如未收到，请查看垃圾邮件文件夹。`,
    },
  },
  join: {
    title: "接受邀请",
    about: (email) => `此邀请发给 ${email}。设置密码后即可进入。`,
    submit: "创建账户",
  },
  forgot: {
    title: "忘记密码？",
    about: "我们会向您的邮箱发送一个链接，一小时内可用它设置一次新密码。",
    submit: "发送链接",
    sent: {
      title: "请查看您的邮箱",
      text: (email) => `如果存在 ${email} 的账户，链接已经发出。也请查看垃圾邮件文件夹。`,
    },
    noMail: "此网关不发送邮件。请向管理员索取重设密码的链接。",
    back: "返回登录",
  },
  reset: {
    title: "设置新密码",
    about: (email) => `用于 ${email}。所有已登录的浏览器都会退出，您的个人访问令牌也会被吊销。`,
    submit: "保存密码",
    access: {
      keys: "要吊销的 API 密钥",
      isNew: "新",
      created: (when) => `${when}创建`,
      rotated: (when) => `${when}轮换`,
      used: (when) => `${when}使用过`,
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
      secondFactor: "双重验证已启用，重设密码后仍然有效。如果不是您启用的，请联系管理员停用。启用时间：",
    },
    done: {
      title: "密码已更改",
      text: "现在请使用新密码登录。",
      keys: (count) => `已吊销 ${count} 个 API 密钥。`,
    },
  },
  verify: {
    title: "验证邮箱",
    about: (email) => `请为 ${email} 设置密码，以创建您的账户。`,
    aboutPresent: (email) =>
      `请为 ${email} 设置密码。此账户在验证之前创建的一切（会话、令牌、API 密钥和双重验证）都会被清除。`,
    submit: "验证并登录",
  },
  link: {
    title: "使用链接登录",
    about: (email) => `此链接将以 ${email} 的身份登录，只能使用一次。`,
    submit: "登录",
  },
  insecure: {
    title: "此连接未加密",
    text: (origin) =>
      `前往 ${origin} 的途中，任何人都可能读到密码。请通过 https 打开网关（在前面放一个代理，并把它的地址设为 PUBLIC_URL），或在本机使用 http://localhost，例如通过 ssh -L。`,
  },
  broken: {
    title: "链接不完整",
    text: "地址缺少一部分。请重新打开链接，或完整复制。",
    worthless: "此链接已失效",
  },
};
