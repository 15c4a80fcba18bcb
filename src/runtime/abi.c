/*
 * The sizes of the structs of the public headers, for bindings (ingot/abi.h).
 *
 * tools/python-abi reads the same headers, and the test e2e.python fails if a struct that a
 * function takes or returns is missing here.
 */
#include "ingot/abi.h"

#include <string.h>

#include "ingot/device.h"
#include "ingot/ingot.h"
#include "runtime/tensor.h"

static const struct {
    const char *name;
    size_t bytes;
} rows[] = {
#define ROW(name) \
    { #name, sizeof(name) }
    ROW(ig_shape),
    ROW(ig_desc),
    ROW(ig_memory_stats),
    ROW(ig_param),
    ROW(ig_linear_options),
    ROW(ig_adamw_options),
    ROW(ig_sgd_options),
    ROW(ig_matmul_options),
    ROW(ig_rope_options),
    ROW(ig_attention_options),
    ROW(ig_paged_kv),
    ROW(ig_route_options),
    ROW(ig_routed),
    ROW(ig_groups),
    ROW(ig_custom_operand),
    ROW(ig_custom_op),
    ROW(ig_allocator),
    ROW(ig_string_view),
    ROW(ig_string),
    ROW(ig_compile_options),
    ROW(ig_ctx_options),
    ROW(ig_roofline_options),
    ROW(ig_tokenizer_options),
    ROW(ig_tokens),
    ROW(ig_model_config),
    ROW(ig_model_options),
    ROW(ig_named_tensor),
    ROW(ig_model_source),
    ROW(ig_train_options),
    ROW(ig_logit_bias),
    ROW(ig_sampling),
    ROW(ig_generate_options),
    ROW(ig_generated),
    ROW(ig_logprob),
    ROW(ig_app),
    ROW(ig_chat_message),
    ROW(ig_chat_options),
    ROW(ig_checkpoint_options),
    ROW(ig_checkpoint_tensor),
    ROW(ig_convert_options),
    ROW(ig_converted_tensor),
    ROW(ig_data_open_options),
    ROW(ig_data_options),
    ROW(ig_data_cursor),
    ROW(ig_session_options),
    ROW(ig_session_token),
    ROW(ig_padded_batch),
    ROW(ig_generate_step),
    ROW(ig_session_generate_options),
    ROW(ig_token_cost),
    ROW(ig_input_session),
    ROW(ig_engine_options),
    ROW(ig_request),
    ROW(ig_job_event),
    ROW(ig_job_stats),
    ROW(ig_histogram),
    ROW(ig_engine_stats),
    ROW(ig_engine_slot),
    ROW(ig_gguf_value),
    ROW(ig_gguf_tensor),
    ROW(ig_gguf_options),
    ROW(ig_counters),
    ROW(ig_device_info),
    ROW(ig_device_entry),
    ROW(ig_needs),
    ROW(ig_attrs_adamw),
    ROW(ig_attrs_sgd),
#undef ROW
};

enum { N_ROWS = sizeof rows / sizeof rows[0] };

const char *ig_struct_name(size_t i) { return i < N_ROWS ? rows[i].name : NULL; }

size_t ig_struct_size(const char *name) {
    for (size_t i = 0; name && i < N_ROWS; i++)
        if (strcmp(rows[i].name, name) == 0) return rows[i].bytes;
    return 0;
}

bool ig_tensor_is_poisoned(const ig_tensor *tensor) { return !tensor || !tensor->storage; }
