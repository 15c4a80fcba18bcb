#include "engine/step_rates.h"

enum { FIRST_PROMPT = 32 }; /* rows before the time of one is known */

static int index_of(int64_t rows) {
    int i = 0;
    while (i < 15 && (int64_t)1 << i < rows) i++;
    return i;
}

static double decode_ms(const ig_step_rates *rates, int64_t rows) {
    if (rows == 0) return 0;
    int i = index_of(rows);
    while (i > 0 && rates->decode_ms[i] == 0) i--;
    return rates->decode_ms[i];
}

int64_t ig_rates_prompt_rows(const ig_step_rates *rates, double step_ms, int64_t decode_rows,
                             int64_t ubatch) {
    const int64_t room = ubatch - decode_rows;
    if (decode_rows == 0) return room;
    double rows = FIRST_PROMPT;
    if (rates->prompt_row_ms > 0)
        rows = (step_ms - decode_ms(rates, decode_rows)) / rates->prompt_row_ms;
    if (rows < IG_RATES_LEAST_PROMPT) rows = IG_RATES_LEAST_PROMPT;
    return rows < (double)room ? (int64_t)rows : room;
}

static double smooth(double old, double now) { return old == 0 ? now : 0.8 * old + 0.2 * now; }

void ig_rates_learn(ig_step_rates *rates, int64_t decode_rows, int64_t prompt_rows, double ms) {
    double *decode = &rates->decode_ms[index_of(decode_rows)];
    if (prompt_rows == 0) {
        *decode = smooth(*decode, ms);
    } else if (prompt_rows >= IG_RATES_LEAST_PROMPT) {
        const double rest = ms - decode_ms(rates, decode_rows);
        const double row = (rest > 0.1 * ms ? rest : 0.1 * ms) / (double)prompt_rows;
        rates->prompt_row_ms = smooth(rates->prompt_row_ms, row);
    }
}
