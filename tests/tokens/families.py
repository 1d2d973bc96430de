"""Tiny random models of the decoder-only families of transformers, and what is to be said of each.

`MODELS` holds how each is built: all have two or four layers, 40 tokens and 32 positions, windows of 4 and thresholds
that a test's texts cross, so that what real models do after thousands of tokens happens within a few.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

VOCABULARY = 40
POSITIONS = 32

COMMON: dict[str, Any] = {
    "vocab_size": VOCABULARY, "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2,
    "num_attention_heads": 4, "max_position_embeddings": POSITIONS, "bos_token_id": None,
    "eos_token_id": VOCABULARY - 1, "pad_token_id": None, "use_cache": True,
}  # fmt: skip
GROUPED: dict[str, Any] = {"num_key_value_heads": 2}
WIDE: dict[str, Any] = {"num_key_value_heads": 2, "head_dim": 8}
MIXED: dict[str, Any] = {**WIDE, "sliding_window": 4, "layer_types": ["sliding_attention", "full_attention"]}
EXPERTS: dict[str, Any] = {
    "num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 16, "shared_expert_intermediate_size": 16,
}  # fmt: skip
ROUTED: dict[str, Any] = {
    "n_routed_experts": 4, "n_shared_experts": 1, "num_experts_per_tok": 2, "moe_intermediate_size": 16,
    "first_k_dense_replace": 1, "n_group": 1, "topk_group": 1,
}  # fmt: skip
LATENT: dict[str, Any] = {
    "num_key_value_heads": 4, "kv_lora_rank": 8, "q_lora_rank": 16, "qk_nope_head_dim": 8, "qk_rope_head_dim": 8,
    "v_head_dim": 8, "head_dim": 8,
}  # fmt: skip
OLD: dict[str, Any] = {"n_positions": POSITIONS, "n_embd": 32, "n_layer": 2, "n_head": 4, "n_inner": 48}
LINEAR: dict[str, Any] = {
    "layer_types": ["linear_attention", "full_attention"], "linear_num_key_heads": 2, "linear_num_value_heads": 2,
    "linear_key_head_dim": 8, "linear_value_head_dim": 8,
}  # fmt: skip
MAMBA: dict[str, Any] = {"mamba_n_heads": 8, "mamba_d_head": 8, "mamba_d_state": 8, "mamba_n_groups": 1}
LONGROPE: dict[str, Any] = {
    "rope_type": "longrope", "rope_theta": 1e4, "short_factor": [1.0] * 4, "long_factor": [1.0, 2.0, 3.0, 4.0],
    "original_max_position_embeddings": 24,
}  # fmt: skip
STATE = "keeps a running state"


class Family(NamedTuple):
    """One family.

    Args:
        stem: of the names of transformers' classes, with the model's ending where it is not ForCausalLM.
        config: what its config has beyond `COMMON`.
        refused: words of the error that refuses it; None: it is exact.
        positions: how many tokens it is decoded with.
        configured: the stem of its config's name, where it is another.
        trees: whether trees can be read too; not where a layer keeps a running state.
    """

    stem: str
    config: Mapping[str, Any] = {}
    refused: str | None = None
    positions: int = POSITIONS
    configured: str | None = None
    trees: bool = True


MODELS: dict[str, Family] = {
    "afmoe": Family("Afmoe", {**MIXED, **EXPERTS, "num_dense_layers": 1, "num_shared_experts": 1}),
    "apertus": Family("Apertus", GROUPED),
    "arcee": Family("Arcee", GROUPED),
    "bamba": Family("Bamba", {**GROUPED, **MAMBA, "attn_layer_indices": [1], "mamba_chunk_size": 4}, trees=False),
    "bert, as a decoder": Family("Bert:LMHeadModel", {"is_decoder": True}),
    "biogpt": Family("BioGpt", {"pad_token_id": 1}),
    "bitnet": Family("BitNet", GROUPED),
    "bloom": Family("Bloom", {"n_layer": 2, "n_head": 4}),
    "codegen": Family("CodeGen", {**OLD, "rotary_dim": 4}),
    "cohere": Family("Cohere", {**GROUPED, "logit_scale": 1.0}),
    "cohere2": Family("Cohere2", {**MIXED, "logit_scale": 1.0}),
    "ctrl": Family("CTRL:LMHeadModel", {**OLD, "dff": 48}),
    "dbrx": Family(
        "Dbrx",
        {
            "d_model": 32, "n_heads": 4, "n_layers": 2, "max_seq_len": POSITIONS,
            "attn_config": {"kv_n_heads": 2, "rope_theta": 1e4, "clip_qkv": 8},
            "ffn_config": {"ffn_hidden_size": 16, "moe_num_experts": 4, "moe_top_k": 2},
        },
    ),
    "deepseek_v2": Family("DeepseekV2", {**LATENT, **ROUTED, "q_lora_rank": None}),
    "deepseek_v3": Family("DeepseekV3", {**LATENT, **ROUTED}),
    "deepseek_v32": Family(
        "DeepseekV32",
        {**LATENT, **ROUTED, "index_n_heads": 2, "index_head_dim": 16, "index_topk": 4},
        "has layers of indexed_attention",
    ),
    "diffllama": Family("DiffLlama", GROUPED),
    "doge": Family("Doge", GROUPED),
    "dots1": Family("Dots1", {**WIDE, **ROUTED}),
    "ernie4_5": Family("Ernie4_5", WIDE),
    "ernie4_5_moe": Family(
        "Ernie4_5_Moe",
        {
            **GROUPED, "moe_num_experts": 4, "moe_k": 2, "moe_intermediate_size": 16, "moe_layer_start_index": 1,
            "moe_layer_end_index": 1, "moe_num_shared_experts": 1,
        },
    ),
    "exaone4": Family("Exaone4", MIXED),
    "falcon": Family("Falcon", {"alibi": False, "multi_query": True, "new_decoder_architecture": False}),
    "falcon, its newer decoder": Family(
        "Falcon", {"alibi": False, "new_decoder_architecture": True, "num_kv_heads": 2}
    ),
    "falcon with ALiBi": Family(
        "Falcon", {"alibi": True, "multi_query": False, "new_decoder_architecture": False}
    ),
    "falcon_h1": Family(
        "FalconH1",
        {**WIDE, **MAMBA, "mamba_d_ssm": 32, "mamba_n_heads": 4, "mamba_chunk_size": 4},
        trees=False,
    ),
    "falcon_mamba": Family("FalconMamba", {"state_size": 4}, trees=False),
    "gemma": Family("Gemma", WIDE),
    "gemma2": Family(
        "Gemma2",
        {
            **WIDE, "sliding_window": 4, "query_pre_attn_scalar": 8, "attn_logit_softcapping": 5.0,
            "final_logit_softcapping": 10.0,
        },
    ),
    "gemma3": Family("Gemma3", MIXED, configured="Gemma3Text"),
    "gemma3, with its image part": Family("Gemma3:ForConditionalGeneration", MIXED, configured="Gemma3Text"),
    "gemma3n": Family(
        "Gemma3n",
        {
            **MIXED, "num_hidden_layers": 4, "layer_types": ["sliding_attention", "full_attention"] * 2,
            "vocab_size_per_layer_input": VOCABULARY, "hidden_size_per_layer_input": 8, "num_kv_shared_layers": 2,
            "altup_num_inputs": 2, "laurel_rank": 4, "activation_sparsity_pattern": [0.0] * 4,
            "intermediate_size": [48] * 4,
        },
        configured="Gemma3nText",
    ),
    "gemma4": Family("Gemma4", MIXED, configured="Gemma4Text"),
    "glm": Family("Glm", WIDE),
    "glm4": Family("Glm4", WIDE),
    "glm4_moe": Family("Glm4Moe", {**WIDE, **ROUTED}),
    "gpt2": Family("GPT2:LMHeadModel", OLD),
    "gpt_bigcode": Family("GPTBigCode", {**OLD, "multi_query": True}),
    "gpt_neo": Family(
        "GPTNeo",
        {"num_layers": 2, "num_heads": 4, "attention_types": [[["global", "local"], 1]], "window_size": 4},
    ),
    "gpt_neox": Family("GPTNeoX", {"rotary_pct": 0.5}),
    "gpt_oss": Family(
        "GptOss",
        {
            **MIXED, "num_local_experts": 4, "num_experts_per_tok": 2,
            "rope_parameters": {"rope_type": "default", "rope_theta": 1e4},
        },
    ),
    "gptj": Family("GPTJ", {**OLD, "rotary_dim": 4}),
    "granite": Family("Granite", GROUPED),
    "granitemoe": Family("GraniteMoe", {**GROUPED, "num_local_experts": 4}),
    "granitemoehybrid": Family(
        "GraniteMoeHybrid",
        {
            **GROUPED, **MAMBA, "num_local_experts": 4, "layer_types": ["mamba", "attention"],
            "shared_intermediate_size": 16,
        },
        trees=False,
    ),
    "helium": Family("Helium", WIDE),
    "hunyuan_v1_dense": Family("HunYuanDenseV1", WIDE),
    "jamba": Family(
        "Jamba",
        {
            **GROUPED, "num_experts": 2, "num_experts_per_tok": 1, "attn_layer_period": 2, "attn_layer_offset": 1,
            "expert_layer_period": 2, "expert_layer_offset": 1, "mamba_d_state": 4, "mamba_dt_rank": 4,
            "use_mamba_kernels": False,
        },
        trees=False,
    ),
    "jetmoe": Family(
        "JetMoe", {**GROUPED, "kv_channels": 8, "num_local_experts": 4, "num_experts_per_tok": 2}
    ),
    "lfm2": Family(
        "Lfm2",
        {**GROUPED, "layer_types": ["conv", "full_attention"], "conv_L_cache": 3, "block_multiple_of": 8},
        trees=False,
    ),
    "llama": Family("Llama", GROUPED),
    "llama, dynamic angles": Family(
        "Llama", {**GROUPED, "rope_parameters": {"rope_type": "dynamic", "factor": 4.0, "rope_theta": 1e4}}
    ),
    "llama, llama3 angles": Family(
        "Llama",
        {
            **GROUPED,
            "rope_parameters": {
                "rope_type": "llama3", "factor": 8.0, "rope_theta": 1e4, "low_freq_factor": 1.0,
                "high_freq_factor": 4.0, "original_max_position_embeddings": 16,
            },
        },
    ),
    "llama, yarn angles": Family(
        "Llama",
        {
            **GROUPED,
            "rope_parameters": {
                "rope_type": "yarn", "factor": 2.0, "rope_theta": 1e4, "original_max_position_embeddings": 16,
            },
        },
    ),
    "llama4": Family(
        "Llama4",
        {
            **WIDE, "intermediate_size_mlp": 48, "num_local_experts": 2, "num_experts_per_tok": 1,
            "attention_chunk_size": 26, "layer_types": ["chunked_attention", "full_attention"],
            "no_rope_layers": [1, 0], "attn_temperature_tuning": True, "floor_scale": 25,
        },
        positions=24,
        configured="Llama4Text",
    ),
    "longcat_flash": Family(
        "LongcatFlash",
        {
            **LATENT, "n_routed_experts": 4, "moe_topk": 2, "num_layers": 1, "ffn_hidden_size": 48,
            "expert_ffn_hidden_size": 16, "zero_expert_num": 1,
        },
    ),
    "mamba": Family("Mamba", {"state_size": 4}, trees=False),
    "mamba2": Family(
        "Mamba2", {"state_size": 8, "num_heads": 8, "head_dim": 8, "n_groups": 1, "chunk_size": 4}, trees=False
    ),
    "minimax": Family(
        "MiniMax",
        {
            **WIDE, "num_local_experts": 4, "block_size": 4, "layer_types": ["linear_attention", "full_attention"],
        },
        "uses cache of its own",
    ),
    "minimax_m2": Family(
        "MiniMaxM2", {**WIDE, "num_local_experts": 4, "num_experts_per_tok": 2, "rotary_dim": 8}
    ),
    "ministral": Family("Ministral", MIXED),
    "ministral3": Family(
        "Ministral3",
        {
            **WIDE,
            "rope_parameters": {
                "rope_type": "yarn", "factor": 2.0, "rope_theta": 1e4, "original_max_position_embeddings": 8,
                "llama_4_scaling_beta": 0.5, "beta_fast": 32.0, "beta_slow": 1.0, "mscale": 1.0, "mscale_all_dim": 1.0,
            },
        },
    ),
    "mistral": Family("Mistral", {**WIDE, "sliding_window": 4}),
    "mixtral": Family("Mixtral", {**GROUPED, "num_local_experts": 4, "sliding_window": None}),
    "modernbert-decoder": Family(
        "ModernBertDecoder",
        {
            "local_attention": 8, "global_attn_every_n_layers": 2, "bos_token_id": 1, "pad_token_id": 0,
            "cls_token_id": 1, "sep_token_id": 2,
        },
    ),
    "mpt": Family(
        "Mpt",
        {
            "d_model": 32, "n_heads": 4, "n_layers": 2, "expansion_ratio": 2, "max_seq_len": POSITIONS,
            "max_position_embeddings": None,
        },
    ),
    "nanochat": Family("NanoChat", GROUPED),
    "nemotron": Family("Nemotron", WIDE),
    "nemotron_h": Family(
        "NemotronH",
        {
            **WIDE, "layers_block_type": ["mamba", "attention"], "mamba_num_heads": 8, "mamba_head_dim": 8,
            "ssm_state_size": 8, "n_groups": 1, "chunk_size": 4,
        },
        trees=False,
    ),
    "olmo": Family("Olmo", GROUPED),
    "olmo2": Family("Olmo2", GROUPED),
    "olmo3": Family("Olmo3", MIXED),
    "olmo_hybrid": Family("OlmoHybrid", {**GROUPED, **LINEAR}, trees=False),
    "olmoe": Family("Olmoe", {**GROUPED, "num_experts": 4, "num_experts_per_tok": 2}),
    "openai-gpt": Family("OpenAIGPT:LMHeadModel", OLD, "in blocks it fails with RuntimeError"),
    "opt": Family("OPT", {"ffn_dim": 48, "word_embed_proj_dim": 32, "pad_token_id": 1}),
    "persimmon": Family("Persimmon"),
    "phi": Family("Phi", GROUPED),
    "phi3": Family("Phi3", GROUPED),
    "phi3, longrope": Family(
        "Phi3",
        {**GROUPED, "original_max_position_embeddings": 24, "rope_parameters": LONGROPE},
        positions=24,
    ),
    "phimoe": Family("Phimoe", {**GROUPED, "num_local_experts": 4}),
    "qwen2": Family("Qwen2", GROUPED),
    "qwen2, its windows": Family(
        "Qwen2", {**GROUPED, "use_sliding_window": True, "sliding_window": 4, "max_window_layers": 1}
    ),
    "qwen2_moe": Family("Qwen2Moe", {**GROUPED, **EXPERTS}),
    "qwen3": Family("Qwen3", WIDE),
    "qwen3_5": Family("Qwen3_5", {**WIDE, **LINEAR}, trees=False, configured="Qwen3_5Text"),
    "qwen3_moe": Family("Qwen3Moe", {**WIDE, **EXPERTS}),
    "qwen3_next": Family("Qwen3Next", {**WIDE, **LINEAR, **EXPERTS}, trees=False),
    "recurrent_gemma": Family(
        "RecurrentGemma",
        {**WIDE, "lru_width": 32, "attention_window_size": 8, "block_types": ["recurrent", "attention"]},
        "first pass of a single token",
    ),
    "roformer": Family(
        "RoFormer", {"is_decoder": True, "embedding_size": 32}, "counts places where positions are given"
    ),
    "rwkv": Family("Rwkv", {"attention_hidden_size": 32, "context_length": POSITIONS}, STATE),
    "seed_oss": Family("SeedOss", WIDE),
    "smollm3": Family("SmolLM3", GROUPED),
    "stablelm": Family("StableLm", GROUPED),
    "starcoder2": Family("Starcoder2", {**GROUPED, "sliding_window": 4}),
    "vaultgemma": Family("VaultGemma", MIXED),
    "xglm": Family(
        "XGLM", {"d_model": 32, "ffn_dim": 48, "num_layers": 2, "attention_heads": 4, "pad_token_id": 1}
    ),
    "xlstm": Family("xLSTM", {"num_heads": 4, "num_blocks": 2, "chunk_size": 4}, "in blocks it fails with"),
    "zamba2": Family(
        "Zamba2",
        {
            "num_key_value_heads": 4, "mamba_d_state": 8, "mamba_ngroups": 1, "n_mamba_heads": 8, "mamba_headdim": 8,
            "chunk_size": 4, "use_mamba_kernels": False, "num_hidden_layers": 4,
            "layers_block_type": ["mamba", "hybrid", "mamba", "hybrid"],
        },
        trees=False,
    ),
}  # fmt: skip

NOT_BUILT = {
    "cpmant": "its prompts of 32 special tokens leave no room in a vocabulary of 40, and it is one of a kind",
    "gemma3n, with its other parts": "they need the package timm",
    "reformer": "its hashing wants texts of whole chunks",
    "xlnet": "it is no decoder: it predicts tokens in any order",
    "zamba": "transformers cannot tie the weights of a model as small as this",
}
"""Families that were looked at and are not in `MODELS`, with the reason."""


def module_of(name: str, *, seed: int = 0, dtype: str = "float32") -> Any:
    """A random model of a family, its weights large enough that its distributions are sharp."""
    import torch
    import transformers

    family = MODELS[name]
    stem, _, ending = family.stem.partition(":")
    given = COMMON | dict(family.config)
    if given["max_position_embeddings"] is None:  # most configs keep what they do not know
        del given["max_position_embeddings"]
    config: Any = getattr(transformers, (family.configured or stem) + "Config")(**given)
    if ending == "ForConditionalGeneration":
        image = {
            "hidden_size": 16, "intermediate_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2,
            "image_size": 28, "patch_size": 14,
        }  # fmt: skip
        config = getattr(transformers, stem + "Config")(text_config=config.to_dict(), vision_config=image)
    torch.manual_seed(seed)
    module = getattr(transformers, stem + (ending or "ForCausalLM"))(config).eval()
    with torch.no_grad():
        for at, parameter in module.named_parameters():
            if parameter.dim() > 1:
                parameter.normal_(0, 0.4)
            elif at.endswith("bias"):
                parameter.normal_(0, 0.2)
    return module.to(getattr(torch, dtype))
