/* jinja_strings.h - what filters and methods of strings share; marks go where bytes go. */
#ifndef IG_TEXT_JINJA_JINJA_STRINGS_H
#define IG_TEXT_JINJA_JINJA_STRINGS_H

#include "text/jinja/jinja_run.h"

typedef enum jinja_side { JINJA_LEFT = 1, JINJA_RIGHT = 2, JINJA_BOTH = 3 } jinja_side;

/* Without the characters at its ends; NULL: without white space. */
IG_MUST_CHECK ig_status jinja_strip(jinja_run *run, const jinja_string *s,
                                    const jinja_string *chars, jinja_side side, jinja_value *out);

/* At most `most` times; below 0: no limit. */
IG_MUST_CHECK ig_status jinja_replace(jinja_run *run, const jinja_string *s,
                                      const jinja_string *from, const jinja_string *to,
                                      int64_t most, jinja_value *out);

typedef enum jinja_case { JINJA_UPPER, JINJA_LOWER, JINJA_TITLE, JINJA_CAPITALIZE } jinja_case;
/* Of TITLE words begin behind what is no letter, `as_filter` behind spaces and brackets alone. */
IG_MUST_CHECK ig_status jinja_change_case(jinja_run *run, const jinja_string *s, jinja_case to,
                                          bool as_filter, jinja_value *out);

IG_MUST_CHECK ig_status jinja_split_lines(jinja_run *run, const jinja_string *s, bool keep_ends,
                                          jinja_value *out);

/* Where a text stands in another, from a byte on; SIZE_MAX: nowhere. */
size_t jinja_find_text(const jinja_string *s, const jinja_string *part, size_t from);

size_t jinja_before(const jinja_string *s, size_t at); /* where the one before a byte begins */
bool jinja_is_letter(uint32_t point);
uint32_t jinja_point(const jinja_string *s, size_t at); /* the character at a byte */

#endif
