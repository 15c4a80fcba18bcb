#include "cli/train/train_routes.h"

#include <string.h>

#include "ingot/arch.h"
#include "ingot/grad.h"

const char *const train_routes[] = {"easy", "replay", "production", NULL};

/* ig_arch_entry() of examples/production_*.c, which the program is built with. */
const ig_arch_desc *production_llm_entry(size_t i);
const ig_arch_desc *production_gpt_entry(size_t i);

const ig_production *train_production(const char *arch) {
    static const struct {
        const char *arch;
        const ig_arch_desc *(*entry)(size_t i);
    } tables[] = {{"llm", production_llm_entry}, {"gpt", production_gpt_entry}};
    for (size_t i = 0; i < sizeof tables / sizeof tables[0]; i++)
        if (strcmp(arch, tables[i].arch) == 0) return tables[i].entry(0)->production;
    return NULL;
}

ig_status train_route_begin(ig_ctx *context, ig_adapter *adapter, train_route route, int64_t batch,
                            int64_t ctx, const ig_train_options *options) {
    const char *arch = ig_adapter_architecture(adapter);
    if (route == TRAIN_PRODUCTION)
        return ig_adapter_use_production(adapter, train_production(arch), batch, ctx, options);
    if (!ig_adapter_has_modules(adapter))
        return IG_FAIL(IG_ERR_ARGUMENT,
                       "--route %s: %s is defined by dispatches and trains by --route production",
                       train_routes[route], arch);
    return ig_mode_set(context, route == TRAIN_REPLAY ? IG_MODE_COMPILED : IG_MODE_DYNAMIC);
}
