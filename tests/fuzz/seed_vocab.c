/* seed_vocab FOLDER - writes vocabularies to begin fuzzing with, as fuzz_vocab.c reads them. */
#include <stdio.h>
#include <string.h>

typedef struct token {
    unsigned char kind; /* 1 normal, 2 unknown, 3 control, 4 user's; 7 more is a higher score */
    const char *text;
} token;

typedef struct seed {
    unsigned char model, pre, flags;
    token tokens[12];
    const char *merges[8];
    const char *text;
} seed;

static const seed seeds[] = {
    {0,
     0,
     15,
     {{2, "<unk>"},
      {3, "<s>"},
      {3, "</s>"},
      {1, "\u2581"},
      {8, "a"},
      {15, "\u2581a"},
      {22, "ab"},
      {4, "<user>"},
      {29, "\u00e4"}},
     {0},
     "a ab <s>\u00e4\u2581ab<user>\xff a"},
    {0, 0, 31, {{1, "\u2581\u2581"}, {8, "a"}, {4, "  "}}, {0}, "  a    a  "},
    {1,
     1,
     2,
     {{1, "ab"}, {1, "abc"}, {1, "\u0120a"}, {3, "<|im_end|>"}, {4, "<|im|>"}},
     {"a b", "ab c", "\u0120 a", "x y"},
     "abc ab<|im_end|> a<|im|>I'll 1234 \xc3\n\n\u4e2d\u6587"},
    {1, 3, 0, {{1, "12"}, {1, "\u010a\u010a"}}, {"1 2", "\u010a \u010a"}, "12345\n\n\r\n'S it's"},
    {1, 9, 0, {{1, "ll"}}, {"l l"}, "\u4e2d\u6587 caf\u00e9 12 ll!  "},
    {1, 19, 0, {{1, "11"}}, {"1 1"}, "1111111 111\u00bd11"},
    {2,
     0,
     3,
     {{3, "[CLS]"},
      {3, "[SEP]"},
      {1, "\u2581un"},
      {1, "aff"},
      {1, "able"},
      {1, "\u2581cafe"},
      {1, "\u2581,"}},
     {0},
     "Unaffable, CAF\u00c9 e\u0301\u200b [SEP] \ud55c\u4e2d"},
    {2, 0, 96, {{1, "un"}, {1, "##aff"}}, {0}, "unaff Un \u0301"},
};

static int write_seed(const seed *s, FILE *out) {
    unsigned n_tokens = 0, n_merges = 0;
    while (s->tokens[n_tokens].text) n_tokens++;
    while (s->merges[n_merges]) n_merges++;
    fprintf(out, "%c%c%c%c%c", s->model, s->pre, s->flags, n_tokens, n_merges);
    for (unsigned i = 0; i < n_tokens; i++)
        fprintf(out, "%c%c%s", s->tokens[i].kind, (int)strlen(s->tokens[i].text),
                s->tokens[i].text);
    for (unsigned i = 0; i < n_merges; i++)
        fprintf(out, "%c%s", (int)strlen(s->merges[i]), s->merges[i]);
    return fprintf(out, "%s", s->text) < 0;
}

int main(int argc, char **argv) {
    if (argc != 2) return fprintf(stderr, "usage: seed_vocab FOLDER\n") > 0 ? 2 : 1;
    for (size_t i = 0; i < sizeof seeds / sizeof *seeds; i++) {
        char path[4096];
        snprintf(path, sizeof path, "%s/seed-%zu", argv[1], i);
        FILE *out = fopen(path, "wb");
        int failed = !out || write_seed(&seeds[i], out);
        if (out) failed |= fclose(out) != 0;
        if (failed) return perror(path), 1;
    }
    return 0;
}
