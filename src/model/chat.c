#include "model/chat.h"

#include "model/adapter.h"
#include "model/model.h"

const ig_chat_format *ig_adapter_chat_format(const ig_adapter *a) {
    ig_gguf_text text;
    if (!a->source || !ig_gguf_text_of(a->source->file, "tokenizer.chat_template", &text))
        return NULL;
    return ig_chat_detect(text.bytes, (size_t)text.n_bytes);
}

ig_status ig_adapter_encode_chat(const ig_adapter *a, const ig_chat_format *format,
                                 const ig_chat_message *messages, size_t n_messages, ig_ids *out) {
    ig_chat_prompt prompt = {.allocator = ig_ctx_allocator(a->ctx)};
    ig_status status = ig_chat_write(format, messages, n_messages, IG_CHAT_REPLY, &prompt);
    if (status == IG_OK)
        status = ig_tokenizer_encode_spans(a->tokenizer, prompt.spans, prompt.n_spans,
                                           IG_ENCODE_ADD_SPECIAL, out);
    ig_chat_prompt_deinit(&prompt);
    return status;
}
