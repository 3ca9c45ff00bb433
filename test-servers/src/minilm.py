"""Writes the model all-MiniLM-L6-v2 as the one file that llama.cpp reads. Arguments: its folder, and the file to write.

Only `gguf` is needed. Matrices become 16 bits wide, which halves the file; what is added or scaled by stays at 32.
"""

import json
import mmap
import sys
from pathlib import Path

import gguf
import numpy

# What a tensor is called there, and here. `#` is the number of the layer.
NAMES = {
    "embeddings.word_embeddings": "token_embd",
    "embeddings.position_embeddings": "position_embd",
    "embeddings.token_type_embeddings": "token_types",
    "embeddings.LayerNorm": "token_embd_norm",
    "encoder.layer.#.attention.self.query": "blk.#.attn_q",
    "encoder.layer.#.attention.self.key": "blk.#.attn_k",
    "encoder.layer.#.attention.self.value": "blk.#.attn_v",
    "encoder.layer.#.attention.output.dense": "blk.#.attn_output",
    "encoder.layer.#.attention.output.LayerNorm": "blk.#.attn_output_norm",
    "encoder.layer.#.intermediate.dense": "blk.#.ffn_up",
    "encoder.layer.#.output.dense": "blk.#.ffn_down",
    "encoder.layer.#.output.LayerNorm": "blk.#.layer_output_norm",
}
# They serve other purposes than a sentence's vector.
UNUSED = ("embeddings.position_ids", "pooler.")
# Looked up and added, never multiplied.
ADDED = ("position_embd.weight", "token_types.weight")


def main(folder: Path, file: Path) -> None:
    config = json.loads((folder / "config.json").read_text())
    vocabulary = (folder / "vocab.txt").read_text(encoding="utf-8").splitlines()
    writer = gguf.GGUFWriter(file, "bert")
    describe(writer, config)
    speak(writer, vocabulary)
    for name, numbers in tensors(folder / "model.safetensors"):
        if name.startswith(UNUSED):
            continue
        name = renamed(name)
        narrow = numbers.ndim == 2 and name not in ADDED
        writer.add_tensor(name, numbers.astype(numpy.float16 if narrow else numpy.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def describe(writer: gguf.GGUFWriter, config: dict) -> None:
    """How large it is, and that a text's vector is the mean of its words'."""
    writer.add_block_count(config["num_hidden_layers"])
    writer.add_context_length(config["max_position_embeddings"])
    writer.add_embedding_length(config["hidden_size"])
    writer.add_feed_forward_length(config["intermediate_size"])
    writer.add_head_count(config["num_attention_heads"])
    writer.add_layer_norm_eps(config["layer_norm_eps"])
    writer.add_causal_attention(False)
    writer.add_pooling_type(gguf.PoolingType.MEAN)
    writer.add_file_type(gguf.LlamaFileType.MOSTLY_F16)


def speak(writer: gguf.GGUFWriter, vocabulary: list[str]) -> None:
    """Its words. BERT marks what continues a word with `##`; llama.cpp marks what begins one instead."""

    def is_control(word: str) -> bool:
        return word.startswith("[") and word.endswith("]")

    def spelled(word: str) -> str:
        if is_control(word):
            return word
        return word[2:] if word.startswith("##") else "\u2581" + word

    kinds = [gguf.TokenType.CONTROL if is_control(it) else gguf.TokenType.NORMAL for it in vocabulary]
    number = vocabulary.index
    writer.add_tokenizer_model("bert")
    writer.add_tokenizer_pre("default")
    writer.add_token_list([spelled(it).encode() for it in vocabulary])
    writer.add_token_types(kinds)
    writer.add_token_type_count(2)
    writer.add_bos_token_id(number("[CLS]"))
    writer.add_eos_token_id(number("[SEP]"))
    writer.add_sep_token_id(number("[SEP]"))
    writer.add_unk_token_id(number("[UNK]"))
    writer.add_pad_token_id(number("[PAD]"))
    writer.add_mask_token_id(number("[MASK]"))


def tensors(file: Path):
    """Each tensor's name and numbers: a length, that much JSON which says where each one lies, and the numbers."""
    with file.open("rb") as opened:
        content = mmap.mmap(opened.fileno(), 0, access=mmap.ACCESS_READ)
    begin = 8 + int.from_bytes(content[:8], "little")
    for name, it in json.loads(content[8:begin]).items():
        if name == "__metadata__":
            continue
        kind = {"F32": "<f4", "F16": "<f2", "I64": "<i8"}[it["dtype"]]
        start, end = it["data_offsets"]
        yield name, numpy.frombuffer(content[begin + start : begin + end], kind).reshape(it["shape"])


def renamed(name: str) -> str:
    stem, _, kind = name.removeprefix("bert.").rpartition(".")
    layer = next((it for it in stem.split(".") if it.isdigit()), "")
    return NAMES[stem.replace(f".{layer}.", ".#.") if layer else stem].replace("#", layer) + "." + kind


main(Path(sys.argv[1]), Path(sys.argv[2]))
