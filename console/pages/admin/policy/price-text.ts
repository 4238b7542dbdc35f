/** A price in a few words: tokens in and out, or the price of an image or a request. */

import { useFormat, useText } from "../../../text/text.tsx";

interface Shown {
  input?: string | null | undefined;
  output?: string | null | undefined;
  image?: string | null | undefined;
  request?: string | null | undefined;
}

export function usePriceText(): (price: Shown) => string {
  const t = useText("policy").priceText;
  const format = useFormat();
  return ({ input, output, image, request }) => {
    const costs = (usd: string | null | undefined) => usd !== null && usd !== undefined && Number(usd) > 0;
    const parts = [
      ...(costs(input) ? [t.input(format.money(input ?? ""))] : []),
      ...(costs(output) ? [t.output(format.money(output ?? ""))] : []),
      ...(!costs(input) && !costs(output) && costs(image) ? [t.image(format.money(image ?? ""))] : []),
      ...(costs(request) ? [t.request(format.money(request ?? ""))] : []),
    ];
    return parts.length === 0 ? t.free : parts.join(t.between);
  };
}
