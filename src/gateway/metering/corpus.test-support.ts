/**
 * Test support: texts like those of models, generated from a seed: prose, code, Chinese, Japanese, Korean, JSON and
 * mixtures.
 */

export type CorpusKind = "prose" | "code" | "chinese" | "japanese" | "korean" | "json" | "markdown" | "mixed";

export interface CorpusText {
  kind: CorpusKind;
  text: string;
}

const PROSE = [
  "The committee met again on Thursday, and nobody could agree on what the earlier minutes had meant.",
  "“Nothing about it is simple,” she said, turning the page; “but it isn't impossible either.”",
  "In 1987, roughly 4,300 households were connected, which is 12.5% more than the year before.",
  "Photosynthesis converts light energy into chemical energy stored in carbohydrate molecules.",
  "He'd walked past the bakery every morning for eleven years without once noticing the sign.",
  "To configure the service, open Settings → Network and choose the interface you'd like to expose.",
  "Straßenbahnen fahren alle zehn Minuten; an Feiertagen gilt der Sonntagsfahrplan.",
  "L'élève a répondu qu'il n'avait jamais vu un tel phénomène auparavant.",
  "El rendimiento del sistema depende, sobre todo, de la cantidad de memoria disponible.",
  "Interdisciplinary misunderstandings notwithstanding, the characterisation was uncontroversial.",
  "Вчера вечером мы долго обсуждали, как лучше организовать работу отдела.",
  "Let me think step by step. First, the two trains approach each other at 60 km/h + 80 km/h = 140 km/h.",
];

const CODE = [
  "export async function readAll(stream: ReadableStream<Uint8Array>): Promise<Uint8Array> {\n  const chunks: Uint8Array[] = [];\n  for await (const chunk of stream) chunks.push(chunk);\n  return Buffer.concat(chunks);\n}\n",
  "def quicksort(items):\n    if len(items) <= 1:\n        return items\n    pivot = items[len(items) // 2]\n    left = [x for x in items if x < pivot]\n    return quicksort(left) + [pivot]  # TODO: duplicates\n",
  "SELECT u.id, COUNT(*) AS orders\nFROM users u\nLEFT JOIN orders o ON o.user_id = u.id\nWHERE u.created_at >= '2026-01-01'\nGROUP BY u.id\nHAVING COUNT(*) > 3;\n",
  'func (s *Server) handle(w http.ResponseWriter, r *http.Request) {\n\tif r.Method != http.MethodPost {\n\t\thttp.Error(w, "bad method", 405)\n\t\treturn\n\t}\n\tdefer r.Body.Close()\n}\n',
  '#include <vector>\nint main() {\n    std::vector<int> v{1, 2, 3};\n    for (auto &x : v) x *= 2;\n    printf("%d\\n", v[0]);\n    return 0;\n}\n',
  '<div class="card" id="main">\n  <h1>Hello</h1>\n  <p style="color:#ff00aa">Text &amp; more</p>\n</div>\n',
  "fn parse(input: &str) -> Result<Vec<u8>, ParseError> {\n    input.split(',').map(|s| s.trim().parse()).collect()\n}\n",
];

const CHINESE = [
  "人工智能正在改变我们的生活方式，从医疗诊断到自动驾驶，几乎无处不在。",
  "他说：“这件事没有那么简单，我们还需要再讨论一下。”",
  "根据2025年的统计数据，全国共有超过三千家企业参与了该项目。",
  "春天来了，花园里的桃花、杏花和梨花都开了，空气中弥漫着淡淡的香味。",
  "请注意：配置文件必须保存为UTF-8编码，否则程序将无法正确读取中文字符。",
  "量子计算利用叠加态与纠缠现象来处理信息，其潜力远超传统计算机。",
];

const JAPANESE = [
  "人工知能の発展により、私たちの生活は大きく変わりつつあります。",
  "昨日、友達と一緒に新しいレストランへ行きましたが、とても混んでいました。",
  "このプログラムを実行するには、まずライブラリをインストールしてください。",
  "「それは本当ですか？」と彼女は驚いた様子で聞き返した。",
  "データベースへの接続に失敗しました。設定を確認してから、もう一度お試しください。",
];

const KOREAN = [
  "인공지능은 우리의 생활 방식을 빠르게 변화시키고 있습니다.",
  "어제 친구와 함께 새로 생긴 식당에 갔는데 사람이 정말 많았어요.",
  "이 프로그램을 실행하려면 먼저 필요한 라이브러리를 설치해야 합니다.",
  "“그게 정말이에요?”라고 그녀가 놀란 표정으로 물었다.",
  "데이터베이스 연결에 실패했습니다. 설정을 확인한 후 다시 시도하십시오.",
];

const MARKDOWN = [
  "## Results\n\n| Name | Value | Share |\n|---|---:|---:|\n| alpha | 1,204 | 12.4 % |\n| beta | 87 | 0.9 % |\n\n",
  "1. **Install** the package: `npm install --save-exact example@4.0.0`\n2. Run `example --help`.\n\n",
  "- first item\n- second item\n    - nested, with *emphasis*\n\n> A quotation.\n\n---\n\n",
  "The solution is $x = \\frac{-b \\pm \\sqrt{b^2 - 4ac}}{2a}$ 🎉 — see https://example.com/docs?q=1#top.\n\n",
];

/** A small generator (mulberry32): the same seed produces the same texts. */
export function createRandom(seed: number): () => number {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let t = state;
    t = Math.imul(t ^ (t >>> 15), t | 1);
    t ^= t + Math.imul(t ^ (t >>> 7), t | 61);
    return ((t ^ (t >>> 14)) >>> 0) / 4294967296;
  };
}

export function corpusText(kind: CorpusKind, chars: number, random: () => number): string {
  let text = "";
  while (text.length < chars) text += passage(kind, random);
  return text.slice(0, chars).toWellFormed();
}

function passage(kind: CorpusKind, random: () => number): string {
  switch (kind) {
    case "prose":
      return `${pick(PROSE, random)}${random() < 0.2 ? "\n\n" : " "}`;
    case "code":
      return `${pick(CODE, random)}\n`;
    case "chinese":
      return pick(CHINESE, random) + (random() < 0.15 ? "\n" : "");
    case "japanese":
      return pick(JAPANESE, random) + (random() < 0.15 ? "\n" : "");
    case "korean":
      return `${pick(KOREAN, random)} `;
    case "json":
      return jsonPassage(random);
    case "markdown":
      return pick(MARKDOWN, random);
    case "mixed":
      return passage(pick(KINDS.slice(0, -1), random), random);
  }
}

function jsonPassage(random: () => number): string {
  const value = {
    id: Math.floor(random() * 1e9),
    path: `src/${pick(["wire", "store", "pool"], random)}/file-${Math.floor(random() * 99)}.ts`,
    score: Number(random().toFixed(6)),
    tags: [pick(["alpha", "beta", "gamma"], random), "x"],
    uuid: `${hex(8, random)}-${hex(4, random)}-4${hex(3, random)}-${hex(12, random)}`,
    query: pick(PROSE, random),
    city: pick(["北京", "東京", "서울", "Lisboa"], random),
    ok: random() < 0.5,
    none: null,
  };
  return random() < 0.5 ? JSON.stringify(value) : `${JSON.stringify(value, null, 2)},\n`;
}

function hex(digits: number, random: () => number): string {
  let text = "";
  for (let i = 0; i < digits; i++) text += Math.floor(random() * 16).toString(16);
  return text;
}

function pick<T>(list: readonly T[], random: () => number): T {
  const chosen = list[Math.floor(random() * list.length)];
  if (chosen === undefined) throw new Error("nothing to pick from");
  return chosen;
}

export const KINDS: readonly CorpusKind[] = [
  "prose",
  "code",
  "chinese",
  "japanese",
  "korean",
  "json",
  "markdown",
  "mixed",
];

/** Split like a stream: mostly a few characters, sometimes a few hundred. */
export function piecesAtRandom(text: string, random: () => number): string[] {
  const pieces: string[] = [];
  for (let at = 0; at < text.length; ) {
    const size = random() < 0.9 ? 1 + Math.floor(random() * 8) : 1 + Math.floor(random() * 400);
    pieces.push(text.slice(at, at + size));
    at += size;
  }
  return pieces;
}
