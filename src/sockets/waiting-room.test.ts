import { expect, test } from "bun:test";
import { WaitingRoom } from "./waiting-room.ts";

test("so much waits for one key and no more, and so much for all", () => {
  const room = new WaitingRoom({ bytesMax: 100, keyBytesMax: 60 });
  room.enter("a", 50);
  expect([room.hasRoom("a", 11), room.hasRoom("a", 10), room.hasRoom("b", 50)]).toEqual([false, true, true]);
  room.enter("b", 45);
  expect([room.hasRoom("c", 6), room.hasRoom("c", 5)]).toEqual([false, true]);
  room.leave("a", 50);
  expect([room.hasRoom("a", 55), room.hasRoom("a", 56), room.hasRoom("b", 16)]).toEqual([true, false, false]);
});
