/*
 * xml.h - whether a text is well-formed XML, as far as our own pictures go.
 *
 * Tags nest and close, attributes are quoted, & starts one of the five entities.
 */
#ifndef IG_TESTS_XML_H
#define IG_TESTS_XML_H

#include <stdbool.h>
#include <string.h>

/* Moves *at over a text up to '<'; false: a bare & or >. */
static inline bool xml_text(const char **at) {
    static const char *const entities[] = {"&amp;", "&lt;", "&gt;", "&quot;", "&apos;"};
    for (; **at && **at != '<'; (*at)++) {
        if (**at != '&') continue;
        bool known = false;
        for (int i = 0; i < 5; i++) known |= strncmp(*at, entities[i], strlen(entities[i])) == 0;
        if (!known) return false;
    }
    return true;
}

/* Moves *at over the attributes of a tag to its '>' or '/>'. */
static inline bool xml_attributes(const char **at) {
    while (**at) {
        *at += strspn(*at, " \n");
        if (**at == '>' || **at == '/' || **at == '?') return true;
        const size_t name = strcspn(*at, "= \n<>\"");
        if (name == 0 || (*at)[name] != '=' || (*at)[name + 1] != '"') return false;
        *at += name + 2;
        *at += strcspn(*at, "\"<");
        if (**at != '"') return false;
        (*at)++;
    }
    return false;
}

static inline bool xml_is_well_formed(const char *text) {
    enum { DEPTH_MAX = 32 };
    const char *open[DEPTH_MAX]; /* names of the tags that are open */
    size_t lengths[DEPTH_MAX];
    int depth = 0;
    bool had_root = false;
    for (const char *at = text; xml_text(&at) && *at;) {
        const bool closes = at[1] == '/', declares = at[1] == '?';
        at += 1 + (closes || declares);
        const size_t length = strcspn(at, " \n/>?");
        const char *name = at;
        at += length;
        if (length == 0 || !xml_attributes(&at)) return false;
        const bool alone = *at == '/';
        at += (alone || declares) ? 1 : 0;
        if (*at++ != '>') return false;
        if (closes) {
            if (--depth < 0 || lengths[depth] != length || memcmp(open[depth], name, length) != 0)
                return false;
        } else if (!alone && !declares) {
            if (depth == DEPTH_MAX || (depth == 0 && had_root)) return false;
            had_root = true;
            open[depth] = name;
            lengths[depth++] = length;
        }
        if (!xml_text(&at)) return false;
    }
    return had_root && depth == 0;
}

#endif
