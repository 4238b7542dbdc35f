/** The next turn: text and images. Enter sends it, Shift and Enter begins a new line. */

import { type ClipboardEvent, type KeyboardEvent, useRef, useState } from "react";
import { useText } from "../../text/text.tsx";
import { Button, IconButton } from "../../ui/button.tsx";
import { useToast } from "../../ui/toast.tsx";
import type { Turn } from "./conversation.ts";

interface ComposerProps {
  isFirst: boolean;
  isStreaming: boolean;
  /** An option is wrong. */
  isBlocked: boolean;
  /** The turn is the result of a tool call. */
  isToolResult: boolean;
  onSend(turn: Turn): void;
  onStop(): void;
  onRepeat(): void;
}

const IMAGE_TYPES = "image/png,image/jpeg,image/webp,image/gif";
/** The smallest limit among the vendors. */
const IMAGE_BYTES_MAX = 5 * 2 ** 20;
const IMAGES_MAX = 8;

export function Composer(props: ComposerProps) {
  const { isFirst, isStreaming, isBlocked, isToolResult, onSend, onStop, onRepeat } = props;
  const t = useText("playground");
  const [text, setText] = useState("");
  const { images, add, remove, clear } = useImages();
  const isReady = !isStreaming && !isBlocked && (text.trim() !== "" || images.length > 0);
  const send = () => {
    if (!isReady) return;
    onSend({ text: text.trim(), images });
    setText("");
    clear();
  };
  return (
    <div className="composer">
      {isFirst && <Suggestions isBlocked={isBlocked} onSend={onSend} />}
      <textarea
        className="input"
        rows={3}
        aria-label={isToolResult ? t.toolResult : t.prompt}
        placeholder={isToolResult ? t.toolResultHint : t.promptHint}
        value={text}
        onChange={({ target }) => setText(target.value)}
        onKeyDown={(event) => {
          if (!isSendKey(event)) return;
          event.preventDefault();
          send();
        }}
        onPaste={(event) => void add(pastedImages(event))}
      />
      {images.length > 0 && (
        <div className="row">
          {images.map((image, index) => (
            <span key={image} className="attached">
              <img src={image} alt={t.imageNumber(index + 1)} />
              <IconButton small icon="close" label={t.removeImage(index + 1)} onClick={() => remove(image)} />
            </span>
          ))}
        </div>
      )}
      <div className="row apart">
        <ImageButton onFiles={(files) => void add(files)} />
        <div className="row">
          {!isFirst && !isStreaming && (
            <Button icon="refresh" disabled={isBlocked} onClick={onRepeat}>
              {t.repeat}
            </Button>
          )}
          {isStreaming ? (
            <Button icon="pause" onClick={onStop}>
              {t.stop}
            </Button>
          ) : (
            <Button tone="primary" icon="play" disabled={!isReady} onClick={send}>
              {t.send}
            </Button>
          )}
        </div>
      </div>
    </div>
  );
}

function Suggestions({ isBlocked, onSend }: Pick<ComposerProps, "isBlocked" | "onSend">) {
  const t = useText("playground");
  return (
    <div className="row">
      {Object.values(t.suggestions).map((text) => (
        <Button key={text} small disabled={isBlocked} onClick={() => onSend({ text, images: [] })}>
          {text}
        </Button>
      ))}
    </div>
  );
}

function ImageButton({ onFiles }: { onFiles(files: readonly File[]): void }) {
  const t = useText("playground");
  const input = useRef<HTMLInputElement>(null);
  return (
    <>
      <Button icon="add" onClick={() => input.current?.click()}>
        {t.addImages}
      </Button>
      <input
        ref={input}
        type="file"
        hidden
        multiple
        accept={IMAGE_TYPES}
        aria-label={t.addImages}
        onChange={({ target }) => {
          onFiles([...(target.files ?? [])]);
          target.value = "";
        }}
      />
    </>
  );
}

function useImages() {
  const t = useText("playground");
  const showToast = useToast();
  const [images, setImages] = useState<readonly string[]>([]);
  return {
    images,
    async add(files: readonly File[]) {
      if (files.some(({ size }) => size > IMAGE_BYTES_MAX)) showToast(t.imageTooLarge, "bad");
      const fitting = files.filter(({ size }) => size <= IMAGE_BYTES_MAX);
      const urls = await Promise.all(fitting.map(readDataUrl));
      setImages((before) => [...new Set([...before, ...urls])].slice(0, IMAGES_MAX));
    },
    remove: (image: string) => setImages((before) => before.filter((one) => one !== image)),
    clear: () => setImages([]),
  };
}

/** An input method uses Enter to accept what it suggests. */
function isSendKey({ key, shiftKey, nativeEvent }: KeyboardEvent): boolean {
  return key === "Enter" && !shiftKey && !nativeEvent.isComposing;
}

function pastedImages({ clipboardData }: ClipboardEvent): File[] {
  return [...clipboardData.files].filter(({ type }) => IMAGE_TYPES.includes(type));
}

function readDataUrl(file: File): Promise<string> {
  const reader = new FileReader();
  return new Promise((resolve, reject) => {
    reader.onload = () => resolve(String(reader.result));
    reader.onerror = () => reject(reader.error);
    reader.readAsDataURL(file);
  });
}
