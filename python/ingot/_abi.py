"""The C API for ctypes, made from include/ingot/*.h by tools/python-abi: change those.

_library.py reads these tables.  A const char * is str, any other pointer ptr, and
fn:RESULT,ARGUMENTS a pointer to a function.
"""
VERSION = "0.1.0"

ENUMS = {
    "IG_OK": 0,
    "IG_ERR_ARGUMENT": 1,
    "IG_ERR_SHAPE": 2,
    "IG_ERR_UNSUPPORTED": 3,
    "IG_ERR_MEMORY": 4,
    "IG_ERR_IO": 5,
    "IG_ERR_FORMAT": 6,
    "IG_ERR_DEVICE": 7,
    "IG_ERR_CANCELLED": 8,
    "IG_ERR_SPLIT": 9,
    "IG_ERR_STATE": 10,
    "IG_ERR_NOT_FINITE": 11,
    "IG_ERR_MODEL": 12,
    "IG_ERR_DEPENDENCY": 13,
    "IG_ERR_BUSY": 14,
    "IG_STATUS_COUNT": 15,
    "IG_LOG_DEBUG": 0,
    "IG_LOG_INFO": 1,
    "IG_LOG_WARNING": 2,
    "IG_F32": 0,
    "IG_F16": 1,
    "IG_BF16": 2,
    "IG_F64": 3,
    "IG_I32": 4,
    "IG_Q4_0": 5,
    "IG_Q4_1": 6,
    "IG_Q5_0": 7,
    "IG_Q5_1": 8,
    "IG_Q8_0": 9,
    "IG_Q2_K": 10,
    "IG_Q3_K": 11,
    "IG_Q4_K": 12,
    "IG_Q5_K": 13,
    "IG_Q6_K": 14,
    "IG_IQ4_NL": 15,
    "IG_IQ4_XS": 16,
    "IG_MXFP4": 17,
    "IG_DTYPE_COUNT": 18,
    "IG_MAX_RANK": 6,
    "IG_SHAPE_TEXT_BYTES": 128,
    "IG_OP_ADD": 0,
    "IG_OP_SUB": 1,
    "IG_OP_MUL": 2,
    "IG_OP_DIV": 3,
    "IG_OP_EQUAL": 4,
    "IG_OP_SCALE": 5,
    "IG_OP_NEG": 6,
    "IG_OP_EXP": 7,
    "IG_OP_LOG": 8,
    "IG_OP_SQRT": 9,
    "IG_OP_TANH": 10,
    "IG_OP_SIGMOID": 11,
    "IG_OP_RELU": 12,
    "IG_OP_GELU": 13,
    "IG_OP_SILU": 14,
    "IG_OP_SOFTPLUS": 15,
    "IG_OP_POSITIVE": 16,
    "IG_OP_GELU_GRAD": 17,
    "IG_OP_SILU_GRAD": 18,
    "IG_OP_CAST": 19,
    "IG_OP_COPY": 20,
    "IG_OP_FILL": 21,
    "IG_OP_DROPOUT": 22,
    "IG_OP_RESHAPE": 23,
    "IG_OP_TRANSPOSE": 24,
    "IG_OP_SLICE": 25,
    "IG_OP_BROADCAST": 26,
    "IG_OP_PAD": 27,
    "IG_OP_CONCAT": 28,
    "IG_OP_GATHER": 29,
    "IG_OP_SCATTER_ADD": 30,
    "IG_OP_EMBEDDING": 31,
    "IG_OP_EMBEDDING_GRAD": 32,
    "IG_OP_SUM": 33,
    "IG_OP_MEAN": 34,
    "IG_OP_MAX": 35,
    "IG_OP_ARGMAX": 36,
    "IG_OP_SOFTMAX": 37,
    "IG_OP_LOG_SOFTMAX": 38,
    "IG_OP_CROSS_ENTROPY": 39,
    "IG_OP_CROSS_ENTROPY_GRAD": 40,
    "IG_OP_MSE": 41,
    "IG_OP_RMS_NORM": 42,
    "IG_OP_RMS_NORM_GRAD": 43,
    "IG_OP_LAYER_NORM": 44,
    "IG_OP_LAYER_NORM_GRAD": 45,
    "IG_OP_MATMUL": 46,
    "IG_OP_ROPE": 47,
    "IG_OP_ATTENTION": 48,
    "IG_OP_ATTENTION_GRAD": 49,
    "IG_OP_ASSIGN": 50,
    "IG_OP_ACCUMULATE": 51,
    "IG_OP_ADAMW": 52,
    "IG_OP_SGD": 53,
    "IG_OP_GLOBAL_NORM": 54,
    "IG_OP_CLIP": 55,
    "IG_OP_CUSTOM": 56,
    "IG_OP_STORE_ROWS": 57,
    "IG_OP_ATTENTION_PAGED": 58,
    "IG_OP_ROUTE": 59,
    "IG_OP_GROUP_ROWS": 60,
    "IG_OP_MATMUL_GROUPED": 61,
    "IG_OP_MATMUL_GROUPED_GRAD": 62,
    "IG_OP_COMBINE": 63,
    "IG_OP_COUNT": 64,
    "IG_GELU_ERF": 0,
    "IG_GELU_TANH": 1,
    "IG_ACTIVATION_NONE": 0,
    "IG_ACTIVATION_RELU": 1,
    "IG_ACTIVATION_TANH": 2,
    "IG_ACTIVATION_SIGMOID": 3,
    "IG_ACTIVATION_SILU": 4,
    "IG_ACTIVATION_GELU_ERF": 5,
    "IG_ACTIVATION_GELU_TANH": 6,
    "IG_ROPE_INTERLEAVED": 0,
    "IG_ROPE_NEOX": 1,
    "IG_ATTRS_NONE": 0,
    "IG_ATTRS_MAX": 64,
    "IG_ELEMENTWISE": 1,
    "IG_COMMUTES": 2,
    "IG_REDUCES": 4,
    "IG_CONTRACTS": 8,
    "IG_UPDATES": 16,
    "IG_VIEWS": 32,
    "IG_BROADCASTS": 64,
    "IG_TAG_NONE": 0,
    "IG_TAG_MATMUL": 1,
    "IG_TAG_NORM": 2,
    "IG_TAG_ATTENTION": 3,
    "IG_TAG_FFN": 4,
    "IG_TAG_OPTIMIZER": 5,
    "IG_PAGE_TOKENS": 64,
    "IG_VARIADIC": 65535,
    "IG_MAX_OUT": 8,
    "IG_DROP_DIM": 0,
    "IG_KEEP_DIM": 1,
    "IG_ARCH_ABI": 1,
    "IG_PROGRESS_LOAD": 0,
    "IG_PROGRESS_COMPILE": 1,
    "IG_PROGRESS_PACK": 2,
    "IG_PROGRESS_PROGRAMS_CACHED": 3,
    "IG_PROGRESS_PROGRAMS_STORED": 4,
    "IG_PROGRESS_WEIGHTS_CACHED": 5,
    "IG_PROGRESS_WEIGHTS_STORED": 6,
    "IG_ROOF_READ": 0,
    "IG_ROOF_FMA_F32": 1,
    "IG_ROOF_DOT_INT8": 2,
    "IG_ROOF_BARRIER": 3,
    "IG_ROOF_FORK_JOIN": 4,
    "IG_ROOF_COUNT": 5,
    "IG_MODE_DYNAMIC": 0,
    "IG_MODE_COMPILED": 1,
    "IG_MODE_AUTO": 2,
    "IG_SPECIAL_BOS": 0,
    "IG_SPECIAL_EOS": 1,
    "IG_SPECIAL_EOT": 2,
    "IG_SPECIAL_UNKNOWN": 3,
    "IG_SPECIAL_PADDING": 4,
    "IG_SPECIAL_MASK": 5,
    "IG_SPECIAL_COUNT": 6,
    "IG_TOKENIZE_ADD_SPECIAL": 1,
    "IG_TOKENIZE_PARSE_SPECIAL": 2,
    "IG_TOKENIZE_CONTINUES": 4,
    "IG_TOKENIZE_NO_EOS": 8,
    "IG_TOKENIZE_PROMPT": 11,
    "IG_DETOKENIZE_SPECIAL": 1,
    "IG_DETOKENIZE_START": 2,
    "IG_FILE_OTHER": 0,
    "IG_FILE_GGUF": 1,
    "IG_FILE_OAM": 2,
    "IG_FILE_FOLDER": 3,
    "IG_DRAFT_MAX": 63,
    "IG_FINISH_LENGTH": 0,
    "IG_FINISH_STOP": 1,
    "IG_FINISH_CANCELLED": 2,
    "IG_POOL_DEFAULT": 0,
    "IG_POOL_MEAN": 1,
    "IG_POOL_CLS": 2,
    "IG_POOL_LAST": 3,
    "IG_ROLE_WEIGHT": 0,
    "IG_ROLE_OPTIMIZER": 1,
    "IG_SESSION_UBATCH_DEFAULT": 128,
    "IG_TOP_LOGPROBS_MAX": 20,
    "IG_JOB_EVENT_PROGRESS": 0,
    "IG_JOB_EVENT_PROMPT": 1,
    "IG_JOB_EVENT_TOKEN": 2,
    "IG_JOB_EVENT_FINISH": 3,
    "IG_JOB_EVENT_EMBEDDING": 4,
    "IG_JOB_EVENT_DONE": 5,
    "IG_HISTOGRAM_BUCKETS": 20,
    "IG_STEP_DECODE": 0,
    "IG_STEP_PREFILL": 1,
    "IG_STEP_MIXED": 2,
    "IG_STEP_KINDS": 3,
    "IG_JOB_WAITING": 0,
    "IG_JOB_PREFILL": 1,
    "IG_JOB_DECODE": 2,
    "IG_JOB_STATES": 3,
    "IG_GGUF_U8": 0,
    "IG_GGUF_I8": 1,
    "IG_GGUF_U16": 2,
    "IG_GGUF_I16": 3,
    "IG_GGUF_U32": 4,
    "IG_GGUF_I32": 5,
    "IG_GGUF_F32": 6,
    "IG_GGUF_BOOL": 7,
    "IG_GGUF_STRING": 8,
    "IG_GGUF_ARRAY": 9,
    "IG_GGUF_U64": 10,
    "IG_GGUF_I64": 11,
    "IG_GGUF_F64": 12,
    "IG_PACK_MEMORY": 0,
    "IG_PACK_MAPPED": 1,
    "IG_BACKEND_ABI": 1,
    "IG_KIND_INPUT": 0,
    "IG_KIND_OUTPUT": 1,
    "IG_KIND_LOCAL": 2,
    "IG_KIND_WEIGHT": 3,
    "IG_KIND_STATE": 4,
    "IG_ARENA": 0,
    "IG_DEVICE_CPU": 0,
    "IG_DEVICE_GPU": 1,
    "IG_DEVICE_NPU": 2,
    "IG_CAN_COMPILE": 1,
    "IG_CAN_GRAPH": 2,
    "IG_NO_EAGER": 4,
    "IG_OWNS_WEIGHTS": 8,
    "IG_NEVER_FAILS": 16,
    "IG_FUSES_ACROSS_LEVELS": 32,
    "IG_STATE_BACKUP_ONCE": 64,
    "IG_SAVES_NO_WEIGHTS": 128,
    "IG_EARLY_SCRATCH": 256,
}

# The fields, each with its type.
STRUCTS = {
    "ig_shape": (
        "rank i32, dim i64[6]"
    ),
    "ig_desc": (
        "dtype i32, shape ig_shape"
    ),
    "ig_memory_stats": (
        "allocated_bytes u64, peak_bytes u64, available_bytes u64"
    ),
    "ig_param": (
        "path str, tensor ptr"
    ),
    "ig_linear_options": (
        "no_bias bool"
    ),
    "ig_adamw_options": (
        "lr f64, beta1 f64, beta2 f64, eps f64, weight_decay f64"
    ),
    "ig_sgd_options": (
        "lr f64, momentum f64, weight_decay f64, nesterov bool"
    ),
    "ig_matmul_options": (
        "transpose_a bool, transpose_b bool, bias ptr"
    ),
    "ig_rope_options": (
        "freq_base f32, freq_scale f32, rotary_dims i32, type i32, freq_factors ptr, mscale f32"
    ),
    "ig_attention_options": (
        "scale f32, causal bool"
    ),
    "ig_paged_kv": (
        "k_pages ptr, v_pages ptr, page_table ptr, token_seq ptr, token_pos ptr, window u32, "
        "softcap f32, sinks ptr"
    ),
    "ig_route_options": (
        "top_k i32, norm_topk bool"
    ),
    "ig_routed": (
        "ids ptr, weights ptr"
    ),
    "ig_groups": (
        "rows ptr, inverse ptr, offsets ptr"
    ),
    "ig_custom_operand": (
        "desc ig_desc, bytes ptr"
    ),
    "ig_custom_op": (
        "name str, n_out u32, infer fn:i32,ptr,ptr,u32,ptr, run fn:i32,ptr,ptr,u32,ptr, "
        "grad fn:i32,ptr,ptr,u32,ptr,ptr,ptr, user ptr"
    ),
    "ig_allocator": (
        "alloc fn:ptr,ptr,size,size, free fn:void,ptr,ptr, user ptr"
    ),
    "ig_string_view": (
        "bytes ptr, n_bytes size"
    ),
    "ig_string": (
        "allocator ptr, bytes ptr, n_bytes size, room size"
    ),
    "ig_compile_options": (
        "optimization_level i32, precision str, batch_sizes str"
    ),
    "ig_ctx_options": (
        "device str, threads i32, seed u64, strict bool, verbose bool, log fn:void,ptr,i32,ptr, "
        "progress fn:void,ptr,i32,u64,u64, cancel fn:bool,ptr, user ptr, allocator ig_allocator, "
        "plugins str, accept_plugin fn:bool,ptr,ptr, isolate_plugins bool, "
        "on_destroy fn:void,ptr,ptr, compile ig_compile_options, cache_dir str, no_cache bool, "
        "cache_packed_weights bool, cache_bytes u64, memory_bytes u64, unsafe_device bool"
    ),
    "ig_roofline_options": (
        "threads i32, seconds f64, read_bytes u64, allocator ig_allocator, memory ptr"
    ),
    "ig_tokenizer_options": (
        "pre_tokenizer str, allocator ptr"
    ),
    "ig_tokens": (
        "allocator ptr, at ptr, count size, room size"
    ),
    "ig_model_config": (
        "d_model i64, n_layers i64, n_heads i64, n_kv_heads i64, d_ff i64, ctx_len i64, "
        "tokenizer str, sample ptr, sample_bytes size"
    ),
    "ig_model_options": (
        "no_mmap bool, mlock bool, pre_tokenizer str, no_pack bool, allocator ig_allocator, "
        "progress fn:void,ptr,i32,u64,u64, cancel fn:bool,ptr, user ptr"
    ),
    "ig_named_tensor": (
        "name str, desc ig_desc, data ptr"
    ),
    "ig_model_source": (
        "name str, config str, tokenizer str, tokenizer_config str, generation_config str, "
        "tensors ptr, n_tensors size, release fn:void,ptr, user ptr"
    ),
    "ig_train_options": (
        "lr f64, weight_decay f64, clip_norm f64, accumulate bool, n_accumulated i32"
    ),
    "ig_logit_bias": (
        "token i32, bias f32"
    ),
    "ig_sampling": (
        "temperature f64, top_k i32, top_p f64, min_p f64, repeat_penalty f64, "
        "repeat_last_n i32, seed u64, stream u64, typical_p f64, frequency_penalty f64, "
        "presence_penalty f64, mirostat i32, mirostat_tau f64, mirostat_eta f64, biases ptr, "
        "n_biases size"
    ),
    "ig_generate_options": (
        "prompt str, prompt_bytes size, prompt_tokens ptr, n_prompt_tokens size, "
        "no_parse_special bool, ignore_eos bool, max_tokens i64, sampling ig_sampling, stop ptr, "
        "n_stop size, session ptr, sequence i32, draft_ngram i64, draft_max i64, "
        "emit fn:bool,ptr,ptr,size, edit fn:void,ptr,ptr,i64,ptr, token fn:void,ptr,i32,ptr, "
        "user ptr"
    ),
    "ig_generated": (
        "n_prompt_tokens i64, n_generated i64, n_drafted i64, n_accepted i64, finish i32, "
        "prefill_ms f64, decode_ms f64, first_token_ms f64, tokenize_ms f64, detokenize_ms f64, "
        "prefill_plan_ms f64, decode_plan_ms f64"
    ),
    "ig_logprob": (
        "token i32, logprob f64"
    ),
    "ig_app": (
        "init fn:i32,ptr, tick fn:i32,ptr,ptr, shutdown fn:void,ptr, self ptr"
    ),
    "ig_chat_message": (
        "role str, content str, n_bytes size, extra str"
    ),
    "ig_chat_options": (
        "tools str, variables str, no_reply bool, now i64"
    ),
    "ig_checkpoint_options": (
        "optimizer ptr, config str, progress str"
    ),
    "ig_checkpoint_tensor": (
        "name str, role i32, desc ig_desc, bytes ptr, n_bytes u64, offset u64, checksum u64"
    ),
    "ig_convert_options": (
        "type str, pre_tokenizer str, threads i32, note fn:void,ptr,ptr, "
        "progress fn:bool,ptr,ptr,u64,u64, user ptr, writing fn:void,ptr, allocator ptr"
    ),
    "ig_converted_tensor": (
        "name str, from i32, desc ig_desc, n_bytes u64, square f64, error f64"
    ),
    "ig_data_open_options": (
        "allocator ptr, reading fn:void,ptr"
    ),
    "ig_data_options": (
        "tokenizer ptr, ctx_len i64, val_split f64, seed u64"
    ),
    "ig_data_cursor": (
        "epoch u64, window u64, bytes u64, stride u64"
    ),
    "ig_session_options": (
        "ctx_len i64, n_sequences i64, kv_bytes u64, ubatch i64, cache_type_k str, "
        "cache_type_v str, hidden bool, hidden_layers bool"
    ),
    "ig_session_token": (
        "sequence i32, id i32, logits ptr, has_position bool, position i32"
    ),
    "ig_padded_batch": (
        "n_rows i64, length i64, ids ptr, mask ptr, positions ptr, token_types ptr, "
        "last_only bool"
    ),
    "ig_generate_step": (
        "n_generated i64, n_sequences i64, vocabulary i64, logits ptr, tokens ptr, ended ptr"
    ),
    "ig_session_generate_options": (
        "n_sequences i64, prompts ptr, prompt_lengths ptr, max_tokens i64, min_tokens i64, "
        "stop_tokens ptr, n_stop_tokens i64, sampling ig_sampling, edit fn:bool,ptr,ptr, "
        "chosen fn:bool,ptr,ptr, user ptr"
    ),
    "ig_token_cost": (
        "body_bytes u64, head_bytes u64, body_macs u64, head_macs u64, body_float_macs u64, "
        "head_float_macs u64, last_layer_macs u64, attention_macs u64, last_attention_macs u64, "
        "kv_bytes u64"
    ),
    "ig_input_session": (
        "next fn:bool,ptr,ptr,ptr, on_answer fn:bool,ptr,ptr, user ptr, "
        "generate ig_generate_options"
    ),
    "ig_engine_options": (
        "ctx_len i64, n_sequences i64, kv_bytes u64, ubatch i64, cache_type_k str, "
        "cache_type_v str, step_ms f64, max_queue i64, queue_timeout_ms f64, "
        "static_batching bool, no_prefix_cache bool, prefix_cache_file str, "
        "prefix_cache_file_bytes u64, log fn:void,ptr,i32,ptr, user ptr"
    ),
    "ig_request": (
        "tokens ptr, n_tokens size, max_tokens i64, min_tokens i64, n_choices i32, "
        "sampling ig_sampling, stop ptr, n_stop size, stop_tokens ptr, n_stop_tokens size, "
        "ignore_eos bool, prefill_only bool, logprobs bool, top_logprobs i32, "
        "prompt_logprobs bool, no_prefix_cache bool, salt ptr, salt_bytes size, party u64, "
        "priority i32, timeout_ms f64, draft_ngram i64, draft_max i64, embed bool, pooling i32, "
        "notify fn:void,ptr, user ptr"
    ),
    "ig_job_event": (
        "type i32, choice i32, token i32, text ig_string_view, logprob f64, top ptr, n_top size, "
        "finish i32, stop str, processed i64, total i64, cached i64, position i64, "
        "embedding ptr, d_model i64, status i32, error str"
    ),
    "ig_job_stats": (
        "id u64, n_prompt_tokens i64, n_cached_tokens i64, n_generated i64, n_drafted i64, "
        "n_accepted i64, n_preempted i64, queue_ms f64, prefill_ms f64, first_token_ms f64, "
        "decode_ms f64"
    ),
    "ig_histogram": (
        "count u64[21], sum f64"
    ),
    "ig_engine_stats": (
        "n_waiting i64, n_running i64, n_waiting_preempted i64, n_pages i64, n_free_pages i64, "
        "n_cached_pages i64, tick_age_ms f64, n_submitted u64, n_rejected_queue u64, "
        "n_queue_timeouts u64, n_finished u64[3], n_failed u64, n_cancelled u64[3], "
        "n_prompt_tokens u64, n_cached_tokens u64, n_generated u64, n_cache_queries u64, "
        "n_cache_hits u64, n_evicted_pages u64, n_preempted u64, n_restored_pages u64, "
        "n_drafted u64, n_accepted u64, n_steps u64[3], n_decode_sequences u64, "
        "scheduling_ns u64, step_ns u64, first_token ig_histogram, inter_token ig_histogram, "
        "queue ig_histogram, prefill ig_histogram, decode ig_histogram, request ig_histogram, "
        "step ig_histogram[3], prompt_tokens ig_histogram, generated_tokens ig_histogram, "
        "step_tokens ig_histogram[3]"
    ),
    "ig_engine_slot": (
        "job u64, choice i32, state i32, n_prompt_tokens i64, n_processed i64, n_generated i64, "
        "running_ms f64"
    ),
    "ig_gguf_value": (
        "key ig_string_view, type i32, elements i32, count u64, packed ptr, texts ptr"
    ),
    "ig_gguf_tensor": (
        "name str, desc ig_desc, bytes ptr, n_bytes u64, part u32"
    ),
    "ig_gguf_options": (
        "no_mmap bool, mlock bool, progress fn:bool,ptr,u64,u64, user ptr, allocator ptr"
    ),
    "ig_counters": (
        "steps u64, ops u64, views u64, submits u64, dispatches u64, copies u64, waits u64, "
        "records u64, replays u64, replay_ns u64, programs u64, program_hits u64, "
        "program_misses u64, tensors u64, plan_ns u64"
    ),
    "ig_device_info": (
        "struct_size u32, device_class u32, flags u32, alignment u32, dtypes u64, "
        "memory_bytes u64, name char[64], architecture char[32]"
    ),
    "ig_device_entry": (
        "name str, backend str, version str, plugin str, available bool, reason str, "
        "info ig_device_info"
    ),
    "ig_needs": (
        "module str, dtypes u64, bytes u64"
    ),
    "ig_attrs_adamw": (
        "beta1 f32, beta2 f32, eps f32, weight_decay f32, lr_slot u32, step_slot u32"
    ),
    "ig_attrs_sgd": (
        "momentum f32, weight_decay f32, nesterov u32, lr_slot u32"
    ),
}

# The result, then the arguments.
FUNCTIONS = {
    "ig_accumulate": "status ptr ptr",
    "ig_adamw": "status ptr ptr ptr ptr ig_attrs_adamw",
    "ig_adamw_create": "status ptr ptr ptr",
    "ig_adapter_architecture": "str ptr",
    "ig_adapter_can_generate": "bool ptr",
    "ig_adapter_chat_template": "bool ptr ptr",
    "ig_adapter_config": "ig_model_config ptr",
    "ig_adapter_create": "status ptr str ptr ptr",
    "ig_adapter_destroy": "void ptr",
    "ig_adapter_embed": "status ptr str size i32 ptr ptr",
    "ig_adapter_evaluate": "status ptr ptr i64 i64 ptr",
    "ig_adapter_export": "status ptr str",
    "ig_adapter_freeze": "status ptr",
    "ig_adapter_from_model": "status ptr ptr ptr",
    "ig_adapter_generate": "status ptr ptr ptr",
    "ig_adapter_has_modules": "bool ptr",
    "ig_adapter_load": "status ptr str ptr",
    "ig_adapter_open": "status ptr str ptr ptr",
    "ig_adapter_param_count": "i64 ptr",
    "ig_adapter_progress": "str ptr",
    "ig_adapter_save": "status ptr str str",
    "ig_adapter_set_compute_dtype": "status ptr i32",
    "ig_adapter_steps": "i64 ptr",
    "ig_adapter_tokenizer": "ptr ptr",
    "ig_adapter_train": "status ptr ptr i64 i64 ptr ptr",
    "ig_adapter_use_production": "status ptr ptr i64 i64 ptr",
    "ig_adapter_vocab_size": "i64 ptr",
    "ig_add": "ptr ptr ptr",
    "ig_app_run": "status ptr",
    "ig_arch_check_heads": "status str ptr",
    "ig_arch_description": "str size",
    "ig_arch_embedding": "status ptr str i64 i64 f64 ptr",
    "ig_arch_group": "status ptr str ptr",
    "ig_arch_is_trainable": "bool size",
    "ig_arch_layer_group": "status ptr i64 ptr",
    "ig_arch_layer_norm": "status ptr str i64 ptr",
    "ig_arch_linear": "status ptr str i64 i64 bool ptr",
    "ig_arch_load": "status ptr str",
    "ig_arch_name": "str size",
    "ig_arch_probe": "status str",
    "ig_arch_register": "status ptr ptr",
    "ig_arch_registered": "ptr ptr size",
    "ig_arch_reinit": "status ptr f64",
    "ig_arch_resolve": "str ptr str",
    "ig_arch_rms_norm": "status ptr str i64 ptr",
    "ig_argmax": "ptr ptr i32",
    "ig_assign": "status ptr ptr",
    "ig_attention": "ptr ptr ptr ptr ig_attention_options",
    "ig_attention_paged": "ptr ptr ig_paged_kv f32",
    "ig_backend_name": "str size",
    "ig_backend_version": "str size",
    "ig_backward": "status ptr",
    "ig_batch_begin": "status ptr",
    "ig_batch_create": "status ptr ptr",
    "ig_batch_create_tensor": "status ptr ig_desc ptr",
    "ig_batch_create_view": "status ptr ptr ig_desc ptr i64 ptr",
    "ig_batch_destroy": "void ptr",
    "ig_batch_flush": "status ptr",
    "ig_batch_prepare": "status ptr",
    "ig_broadcast": "ptr ptr ig_shape",
    "ig_cache_dir": "status ptr ptr size",
    "ig_capture": "status ptr ptr ptr ptr",
    "ig_captured_destroy": "void ptr",
    "ig_captured_replay": "status ptr",
    "ig_cast": "ptr ptr i32",
    "ig_chat_builtin_name": "str size",
    "ig_chat_detect": "str str size",
    "ig_chat_render": "status ptr ptr ptr size ptr ptr",
    "ig_chat_template_builtin": "status str ptr ptr",
    "ig_chat_template_check": "status ptr ptr str",
    "ig_chat_template_destroy": "void ptr",
    "ig_chat_template_is_jinja": "bool ptr",
    "ig_chat_template_name": "str ptr",
    "ig_chat_template_open": "status str ptr ptr",
    "ig_chat_template_parse": "status str size ptr ptr",
    "ig_chat_template_turn_end": "str ptr",
    "ig_chat_tokenize": "status ptr ptr ptr size ptr ptr",
    "ig_checkpoint_adopt": "status ptr ptr",
    "ig_checkpoint_close": "void ptr",
    "ig_checkpoint_config": "str ptr",
    "ig_checkpoint_count": "size ptr",
    "ig_checkpoint_file_bytes": "u64 ptr",
    "ig_checkpoint_get": "ig_checkpoint_tensor ptr size",
    "ig_checkpoint_load": "status str ptr ptr",
    "ig_checkpoint_load_optimizer": "status ptr ptr",
    "ig_checkpoint_open": "status str ptr",
    "ig_checkpoint_optimizer": "str ptr",
    "ig_checkpoint_progress": "str ptr",
    "ig_checkpoint_save": "status str ptr ptr",
    "ig_checkpoint_seed": "u64 ptr",
    "ig_checkpoint_step": "u64 ptr",
    "ig_checkpoint_verify": "status ptr",
    "ig_checkpoint_version": "u32 ptr",
    "ig_clip": "status ptr ptr f32",
    "ig_combine": "ptr ptr ptr ptr",
    "ig_concat": "ptr ptr i32 i32",
    "ig_conversion_result_arch": "str ptr",
    "ig_conversion_result_bytes_before": "u64 ptr",
    "ig_conversion_result_count": "size ptr",
    "ig_conversion_result_destroy": "void ptr",
    "ig_conversion_result_tensor": "ig_converted_tensor ptr size",
    "ig_conversion_result_type": "str ptr",
    "ig_convert": "status str str ptr ptr",
    "ig_copy": "ptr ptr",
    "ig_cross_entropy": "ptr ptr ptr",
    "ig_ctx_allocator": "ptr ptr",
    "ig_ctx_attach": "status ptr ptr ptr ptr",
    "ig_ctx_attach_packing": "status ptr ptr",
    "ig_ctx_attached": "ptr ptr ptr",
    "ig_ctx_batch_sizes": "str ptr",
    "ig_ctx_create": "status ptr ptr",
    "ig_ctx_destroy": "void ptr",
    "ig_ctx_detach_packing": "void ptr ptr",
    "ig_ctx_device": "str ptr",
    "ig_ctx_device_class": "u32 ptr",
    "ig_ctx_progress": "bool ptr i32 u64 u64",
    "ig_ctx_release_memory": "void ptr",
    "ig_ctx_require": "status ptr ptr",
    "ig_ctx_seed": "u64 ptr",
    "ig_ctx_set_step_count": "void ptr u64",
    "ig_ctx_step_count": "u64 ptr",
    "ig_ctx_step_end": "status ptr",
    "ig_ctx_synchronize": "status ptr",
    "ig_custom": "void ptr u32 ptr u32 ptr",
    "ig_custom_register": "status ptr ptr ptr",
    "ig_data_begin": "status ptr ptr",
    "ig_data_bytes": "u64 ptr",
    "ig_data_close": "void ptr",
    "ig_data_next": "status ptr i64 ptr",
    "ig_data_open": "status ptr size ptr ptr",
    "ig_data_sample": "status ptr size ptr",
    "ig_data_seek": "bool ptr ig_data_cursor",
    "ig_data_tell": "ig_data_cursor ptr",
    "ig_data_val_windows": "i64 ptr",
    "ig_data_validation": "status ptr i64 ptr",
    "ig_data_windows": "i64 ptr",
    "ig_desc_bytes": "bool ig_desc ptr",
    "ig_detokenize": "size ptr ptr size u32 ptr size",
    "ig_detokenizer_create": "status ptr u32 ptr",
    "ig_detokenizer_destroy": "void ptr",
    "ig_detokenizer_end": "ig_string_view ptr",
    "ig_detokenizer_next": "ig_string_view ptr i32",
    "ig_devices_each": "status ptr ptr ptr",
    "ig_dispatch": "status ptr str ptr ptr u32 ptr u32",
    "ig_div": "ptr ptr ptr",
    "ig_dropout": "ptr ptr f64",
    "ig_dropout_create": "status ptr f64 ptr",
    "ig_dtype_find": "bool str ptr",
    "ig_dtype_name": "str i32",
    "ig_embedding": "ptr ptr ptr",
    "ig_embedding_create": "status ptr i64 i64 ptr",
    "ig_engine_cache_bytes": "u64 ptr",
    "ig_engine_call": "status ptr ptr ptr",
    "ig_engine_create": "status ptr ptr ptr",
    "ig_engine_ctx_len": "i64 ptr",
    "ig_engine_destroy": "void ptr",
    "ig_engine_erase_slot": "status ptr i64 ptr",
    "ig_engine_get_slot": "ig_engine_slot ptr i64",
    "ig_engine_get_stats": "void ptr ptr",
    "ig_engine_restore_slot": "status ptr i64 str ptr size ptr",
    "ig_engine_save_slot": "status ptr i64 str ptr",
    "ig_engine_sequences": "i64 ptr",
    "ig_engine_submit": "status ptr ptr ptr",
    "ig_engine_tokenizer": "ptr ptr",
    "ig_equal": "ptr ptr ptr",
    "ig_error_text": "str",
    "ig_eval": "status ptr i32",
    "ig_exp": "ptr ptr",
    "ig_fail": "status i32 str i32 str ...",
    "ig_file_kind_of": "i32 str",
    "ig_full": "ptr ptr ig_desc f64",
    "ig_gather": "ptr ptr ptr i32",
    "ig_gelu": "ptr ptr i32",
    "ig_gguf_bool": "bool ptr str ptr",
    "ig_gguf_close": "void ptr",
    "ig_gguf_file_bytes": "u64 ptr",
    "ig_gguf_find": "ptr ptr str",
    "ig_gguf_find_tensor": "ptr ptr str",
    "ig_gguf_int": "bool ptr str ptr",
    "ig_gguf_int_at": "i64 ptr u64",
    "ig_gguf_n_parts": "size ptr",
    "ig_gguf_n_tensors": "size ptr",
    "ig_gguf_n_values": "size ptr",
    "ig_gguf_open": "status str ptr ptr",
    "ig_gguf_part_name": "str ptr size",
    "ig_gguf_real": "bool ptr str ptr",
    "ig_gguf_real_at": "f64 ptr u64",
    "ig_gguf_string": "bool ptr str ptr",
    "ig_gguf_tensor_at": "ptr ptr size",
    "ig_gguf_type_name": "str i32",
    "ig_gguf_value_at": "ptr ptr size",
    "ig_gguf_version": "u32 ptr",
    "ig_global_norm": "ptr ptr i32",
    "ig_group_rows": "ig_groups ptr i64",
    "ig_histogram_seconds": "f64 i32",
    "ig_histogram_tokens": "f64 i32",
    "ig_input_session_run": "status ptr ptr",
    "ig_isa_name": "str size",
    "ig_job_cancel": "void ptr",
    "ig_job_get_stats": "ig_job_stats ptr",
    "ig_job_poll": "bool ptr ptr",
    "ig_job_release": "void ptr",
    "ig_job_wait": "bool ptr f64",
    "ig_kernel_find": "status str ptr",
    "ig_layer_norm": "ptr ptr ptr ptr f32",
    "ig_layer_norm_create": "status ptr i64 f32 ptr",
    "ig_linear_create": "status ptr i64 i64 ptr ptr",
    "ig_log": "ptr ptr",
    "ig_log_softmax": "ptr ptr i32",
    "ig_logits_logprob": "f64 ptr i64 i32",
    "ig_logits_top": "size ptr i64 ptr size",
    "ig_matmul": "ptr ptr ptr",
    "ig_matmul_grouped": "ptr ptr ptr ptr",
    "ig_matmul_with": "ptr ptr ptr ig_matmul_options",
    "ig_max": "ptr ptr ptr i32 i32",
    "ig_mean": "ptr ptr ptr i32 i32",
    "ig_mode_get": "i32 ptr",
    "ig_mode_set": "status ptr i32",
    "ig_model_copied_bytes": "u64 ptr",
    "ig_model_create": "status ptr ptr ptr",
    "ig_model_load": "status str ptr ptr",
    "ig_model_release": "void ptr",
    "ig_model_retain": "ptr ptr",
    "ig_module_add": "status ptr str ptr",
    "ig_module_add_param": "status ptr str ig_desc ptr",
    "ig_module_call": "ptr ptr ptr",
    "ig_module_compute_dtype": "i32 ptr",
    "ig_module_create": "status ptr ptr ptr ptr",
    "ig_module_ctx": "ptr ptr",
    "ig_module_data": "ptr ptr",
    "ig_module_destroy": "void ptr",
    "ig_module_element_count": "i64 ptr",
    "ig_module_find": "ptr ptr str",
    "ig_module_param": "ig_param ptr size",
    "ig_module_param_count": "size ptr",
    "ig_module_set_compute_dtype": "status ptr i32",
    "ig_module_set_training": "void ptr bool",
    "ig_module_training": "bool ptr",
    "ig_mse": "ptr ptr ptr",
    "ig_mul": "ptr ptr ptr",
    "ig_nan_check_begin": "void ptr",
    "ig_nan_check_end": "str ptr",
    "ig_neg": "ptr ptr",
    "ig_no_grad_begin": "void ptr",
    "ig_no_grad_end": "void ptr",
    "ig_no_init_begin": "void ptr",
    "ig_no_init_end": "void ptr",
    "ig_optimizer_adamw": "ig_attrs_adamw ptr",
    "ig_optimizer_clip_grad_norm": "ptr ptr f64",
    "ig_optimizer_destroy": "void ptr",
    "ig_optimizer_lr": "f64 ptr",
    "ig_optimizer_set_lr": "void ptr f64",
    "ig_optimizer_set_steps": "status ptr i64",
    "ig_optimizer_state": "ptr ptr size size",
    "ig_optimizer_step": "status ptr",
    "ig_optimizer_steps": "i64 ptr",
    "ig_optimizer_zero_grad": "void ptr",
    "ig_packing_add": "status ptr ptr u64 i32",
    "ig_packing_bytes": "u64 ptr",
    "ig_packing_create": "status ptr ptr",
    "ig_packing_release": "void ptr",
    "ig_packing_retain": "ptr ptr",
    "ig_pad": "ptr ptr i32 i64 i64",
    "ig_permute": "ptr ptr ptr i32",
    "ig_plugin_probe": "status str",
    "ig_poison": "ptr ptr i32",
    "ig_positive": "ptr ptr",
    "ig_production_find": "status ptr str ptr",
    "ig_profile_begin": "status ptr u32",
    "ig_profile_end": "void ptr",
    "ig_profile_json": "size ptr ptr size",
    "ig_progress_name": "str i32",
    "ig_quantize_model": "status str str ptr ptr",
    "ig_relu": "ptr ptr",
    "ig_report_counters": "ig_counters ptr",
    "ig_report_first_submit": "u64 ptr",
    "ig_report_json": "size ptr ptr size",
    "ig_report_log_timeline": "void ptr",
    "ig_report_memory": "ig_memory_stats ptr",
    "ig_report_plan_json": "size ptr u32 ptr size",
    "ig_report_reset_memory": "void ptr",
    "ig_reshape": "ptr ptr ig_shape",
    "ig_rms_norm": "ptr ptr ptr f32",
    "ig_rms_norm_create": "status ptr i64 f32 ptr",
    "ig_roofline_measure": "status i32 ptr ptr",
    "ig_roofline_read_bytes": "u64",
    "ig_rope": "ptr ptr ptr ig_rope_options",
    "ig_round_to": "ptr ptr i32",
    "ig_route": "ig_routed ptr ig_route_options",
    "ig_sampling_check": "status ptr i64",
    "ig_scale": "ptr ptr f64 f64",
    "ig_scatter_add": "ptr ptr ptr ptr i32",
    "ig_scope_begin": "void ptr",
    "ig_scope_end": "void ptr",
    "ig_sequential_create": "status ptr ptr",
    "ig_session_cache_bytes": "u64 ptr",
    "ig_session_cost": "ig_token_cost ptr",
    "ig_session_create": "status ptr ptr ptr",
    "ig_session_ctx_len": "i64 ptr",
    "ig_session_destroy": "void ptr",
    "ig_session_embed": "status ptr str size i32 ptr ptr",
    "ig_session_fake_length": "status ptr i32 i64",
    "ig_session_feed": "status ptr i32 ptr i64 ptr",
    "ig_session_fork": "status ptr i32 i32",
    "ig_session_generate": "status ptr ptr ptr ptr ptr",
    "ig_session_hidden": "ptr ptr",
    "ig_session_length": "i64 ptr i32",
    "ig_session_load": "status ptr i32 str",
    "ig_session_run": "status ptr ptr i64",
    "ig_session_run_padded": "status ptr ptr ptr",
    "ig_session_save": "status ptr i32 str",
    "ig_session_sequences": "i64 ptr",
    "ig_session_tokens": "ptr ptr i32",
    "ig_session_truncate": "status ptr i32 i64",
    "ig_session_ubatch": "i64 ptr",
    "ig_session_width": "i64 ptr",
    "ig_sgd": "status ptr ptr ptr ig_attrs_sgd",
    "ig_sgd_create": "status ptr ptr ptr",
    "ig_shape_count": "i64 ig_shape",
    "ig_shape_equal": "bool ig_shape ig_shape",
    "ig_shape_text": "str ig_shape ptr",
    "ig_shape_valid": "bool ig_shape",
    "ig_sigmoid": "ptr ptr",
    "ig_silu": "ptr ptr",
    "ig_slice": "ptr ptr i32 i64 i64",
    "ig_slot_count": "i64 ptr u32",
    "ig_slot_create": "status ptr ptr",
    "ig_slot_set_count": "void ptr u32 i64",
    "ig_slot_set_real": "void ptr u32 f64",
    "ig_softmax": "ptr ptr i32",
    "ig_softplus": "ptr ptr",
    "ig_split_heads": "ptr ptr i64",
    "ig_sqrt": "ptr ptr",
    "ig_status_text": "str i32",
    "ig_store_rows": "status ptr ptr ptr",
    "ig_string_deinit": "void ptr",
    "ig_struct_name": "str size",
    "ig_struct_size": "size str",
    "ig_sub": "ptr ptr ptr",
    "ig_sum": "ptr ptr ptr i32 i32",
    "ig_switch_device": "status ptr str",
    "ig_synthetic_model_create": "status str i32 ptr",
    "ig_synthetic_model_name": "str size",
    "ig_synthetic_model_write": "status str i32 str",
    "ig_tag_begin": "void ptr i32",
    "ig_tag_end": "void ptr",
    "ig_tanh": "ptr ptr",
    "ig_tensor_adopt": "status ptr ptr ptr ptr",
    "ig_tensor_create": "status ptr ig_desc ptr",
    "ig_tensor_create_from": "status ptr ig_desc ptr ptr",
    "ig_tensor_create_view": "status ptr ig_desc ptr i64 ptr",
    "ig_tensor_ctx": "ptr ptr",
    "ig_tensor_desc": "ig_desc ptr",
    "ig_tensor_fill_normal": "status ptr f64 f64",
    "ig_tensor_fill_uniform": "status ptr f64 f64",
    "ig_tensor_freeze": "status ptr",
    "ig_tensor_grad": "ptr ptr",
    "ig_tensor_is_poisoned": "bool ptr",
    "ig_tensor_item": "status ptr ptr",
    "ig_tensor_map": "ptr ptr",
    "ig_tensor_name": "str ptr",
    "ig_tensor_read": "status ptr ptr size",
    "ig_tensor_read_as": "status ptr i32 ptr size",
    "ig_tensor_release": "void ptr",
    "ig_tensor_require_grad": "status ptr",
    "ig_tensor_retain": "ptr ptr",
    "ig_tensor_set_name": "status ptr str",
    "ig_tensor_wrap": "status ptr ig_desc ptr ptr ptr ptr ptr",
    "ig_tensor_write": "status ptr ptr size",
    "ig_tensor_write_as": "status ptr i32 ptr size",
    "ig_tensor_zero_grad": "void ptr",
    "ig_tokenize": "status ptr str size u32 ptr",
    "ig_tokenizer_destroy": "void ptr",
    "ig_tokenizer_is_control": "bool ptr i32",
    "ig_tokenizer_is_eog": "bool ptr i32",
    "ig_tokenizer_name": "str ptr",
    "ig_tokenizer_open": "status str ptr ptr",
    "ig_tokenizer_piece": "ig_string_view ptr i32",
    "ig_tokenizer_special": "i32 ptr i32",
    "ig_tokenizer_vocab_size": "i32 ptr",
    "ig_tokens_add": "status ptr i32",
    "ig_tokens_deinit": "void ptr",
    "ig_transpose": "ptr ptr i32 i32",
    "ig_ubatch_attend": "ptr ptr i64 ptr ptr ptr",
    "ig_ubatch_ids": "ptr ptr",
    "ig_ubatch_outputs": "ptr ptr i64 ptr",
    "ig_ubatch_positions": "ptr ptr",
    "ig_version": "str",
    "ig_weight_type_name": "str size",
    "ig_weight_type_resolve": "str str",
}
