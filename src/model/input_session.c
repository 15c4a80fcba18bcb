/* The streaming session: reads a prompt and answers until there is no more input. */
#include "ingot/session.h"
#include "model/adapter.h"

enum { MOST_TOKENS = 1024 };

ig_status ig_input_session_run(ig_adapter *a, const ig_input_session *in) {
    if (!a || !in || !in->next) return IG_FAIL(IG_ERR_ARGUMENT, "input_session: NULL");
    ig_generate_options options = in->generate;
    if (options.max_tokens == 0) options.max_tokens = MOST_TOKENS;
    while (in->next(in->user, &options.prompt, &options.prompt_bytes)) {
        ig_generated made;
        if (options.session) /* each prompt starts with an empty context */
            IG_TRY(ig_session_truncate(options.session, options.sequence, 0));
        IG_TRY(ig_adapter_generate(a, &options, &made));
        if (in->on_answer && !in->on_answer(in->user, &made)) break;
    }
    return IG_OK;
}
