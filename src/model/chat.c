#include "model/chat.h"

#include "model/adapter.h"
#include "model/model.h"

static bool find_template(const ig_adapter *a, ig_gguf_text *out) {
    return a->source && ig_gguf_text_of(a->source->file, "tokenizer.chat_template", out) &&
           out->n_bytes > 0;
}

bool ig_adapter_has_chat_template(const ig_adapter *a) {
    ig_gguf_text text;
    return find_template(a, &text);
}

const ig_chat_format *ig_adapter_chat_format(const ig_adapter *a) {
    ig_gguf_text text;
    return find_template(a, &text) ? ig_chat_detect(text.bytes, (size_t)text.n_bytes) : NULL;
}

ig_status ig_adapter_encode_chat(const ig_adapter *a, const ig_chat_format *format,
                                 const ig_chat_message *messages, size_t n_messages, ig_ids *out) {
    ig_chat_prompt prompt = {.allocator = ig_ctx_allocator(a->ctx)};
    const int32_t eos = ig_tokenizer_special(a->tokenizer, IG_SPECIAL_EOS);
    if (eos >= 0) prompt.eos = ig_tokenizer_piece(a->tokenizer, eos);
    ig_status status = ig_chat_write(format, messages, n_messages, IG_CHAT_REPLY, &prompt);
    if (status == IG_OK)
        status = ig_tokenizer_encode_spans(a->tokenizer, prompt.spans, prompt.n_spans,
                                           IG_ENCODE_ADD_SPECIAL | IG_ENCODE_GOES_ON, out);
    ig_chat_prompt_deinit(&prompt);
    return status;
}
