/* seed_tokenizer FOLDER - writes descriptions of tokenizers to begin fuzzing with. */
#include <stdio.h>
#include <string.h>

#include "seed.h"

static const char *const seeds[] = {
    "{\"kind\":\"byte\"}",
    "{\"kind\":\"char\",\"symbols\":[]}",
    "{\"kind\":\"char\",\"symbols\":[10,32,34,44,58,97,101,228,8364,128512,1114240,1114367]}",
    "{\"kind\":\"bpe\",\"merges\":[]}",
    "{\"kind\":\"bpe\",\"merges\":[[34,107],[105,110],[100,34],[257,258],[256,259]]}",
    "{\"kind\":\"bpe\",\"merges\":[[195,188],[226,130],[257,172],[240,159],[259,144]],"
    "\"\xC3\xBC\":\"\xE2\x82\xAC\"}",
    "{\"kind\":\"bpe\",\"merges\":[[97,97],[256,256],[257,257],[258,258],[259,259],[260,260],"
    "[261,261],[262,262]]}",
    " { \"kind\" : \"bpe\" ,\n\t\"merges\" : [ [ 32 , 32 ] , [ 256 , 256 ] , [ 44 , 32 ] ] } ",
};

int main(int argc, char **argv) {
    if (argc != 2) return fprintf(stderr, "usage: seed_tokenizer FOLDER\n") > 0 ? 2 : 1;
    for (size_t i = 0; i < sizeof seeds / sizeof *seeds; i++)
        if (!seed_write(argv[1], i, seeds[i], strlen(seeds[i]))) return 1;
    return 0;
}
