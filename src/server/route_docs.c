/*
 * docs/openapi.json and the tables of docs/server.md, from the tables of routes and fields.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "server/fields.h"
#include "server/route.h"

/* ---- OpenAPI: schemas ---- */

static const struct {
    unsigned type;
    const char *name;
} type_names[] = {{IG_JSON_BOOLEAN, "boolean"}, {IG_JSON_INTEGER, "integer"},
                  {IG_JSON_NUMBER, "number"},   {IG_JSON_STRING, "string"},
                  {IG_JSON_ARRAY, "array"},     {IG_JSON_OBJECT, "object"}};
enum { TYPES = sizeof type_names / sizeof type_names[0] };

static void write_limits(const ig_field *f, unsigned type, ig_out *out) {
    if (f->min == 0 && f->max == 0) return;
    if (type & (IG_JSON_INTEGER | IG_JSON_NUMBER)) {
        ig_out_number(out, "minimum", f->min);
        ig_out_number(out, "maximum", f->max);
    }
    if (type == IG_JSON_STRING && f->types == type) ig_out_int(out, "maxLength", (int64_t)f->max);
    if (type == IG_JSON_ARRAY) ig_out_int(out, "maxItems", (int64_t)f->max);
    if (type == IG_JSON_OBJECT && f->types == type)
        ig_out_int(out, "maxProperties", (int64_t)f->max);
}

static void write_type(const ig_field *f, int i, ig_out *out) {
    ig_out_string(out, "type", type_names[i].name);
    if (type_names[i].type == IG_JSON_ARRAY) {
        ig_out_open(out, "items", '{');
        ig_out_close(out, '}');
    }
    write_limits(f, type_names[i].type, out);
}

static void write_default(const ig_field *f, ig_out *out) {
    if (isnan(f->standard)) return;
    if (f->types == IG_JSON_BOOLEAN)
        ig_out_bool(out, "default", f->standard == 1);
    else if (f->types & (IG_JSON_INTEGER | IG_JSON_NUMBER))
        ig_out_number(out, "default", f->standard);
}

static void write_property(const ig_field *f, ig_out *out) {
    const bool is_one = (f->types & (f->types - 1)) == 0;
    ig_out_open(out, f->name, '{');
    ig_out_string(out, "description", f->summary);
    if (!is_one) ig_out_open(out, "anyOf", '[');
    for (int i = 0; i < TYPES; i++) {
        if (!(f->types & type_names[i].type)) continue;
        if (!is_one) ig_out_open(out, NULL, '{');
        write_type(f, i, out);
        if (!is_one) ig_out_close(out, '}');
    }
    if (!is_one) ig_out_close(out, ']');
    ig_out_bool(out, "nullable", true);
    write_default(f, out);
    ig_out_close(out, '}');
}

static void write_schema(int bit, ig_out *out) {
    ig_out_open(out, ig_body_name(bit), '{');
    ig_out_string(out, "type", "object");
    ig_out_open(out, "properties", '{');
    for (int i = 0; i < IG_FIELD_COUNT; i++) {
        const ig_field *f = ig_field_row(i);
        if ((f->bodies & 1u << bit) && !f->refusal) write_property(f, out);
    }
    ig_out_close(out, '}');
    ig_out_close(out, '}');
}

static void write_error_schema(ig_out *out) {
    static const char *const members[] = {"message", "type", "param", "code"};
    ig_out_open(out, "Error", '{');
    ig_out_string(out, "type", "object");
    ig_out_open(out, "properties", '{');
    ig_out_open(out, "error", '{');
    ig_out_string(out, "type", "object");
    ig_out_open(out, "properties", '{');
    for (size_t i = 0; i < sizeof members / sizeof members[0]; i++) {
        ig_out_open(out, members[i], '{');
        ig_out_close(out, '}');
    }
    for (int i = 0; i < 4; i++) ig_out_close(out, '}');
}

/* ---- OpenAPI: paths ---- */

/* A star is written as the parameter {id}. */
static void write_path(const char *path, ig_out *out) {
    char text[128];
    const size_t n = strlen(path);
    const bool has_rest = path[n - 1] == '*';
    snprintf(text, sizeof text, "%.*s%s", (int)(has_rest ? n - 1 : n), path,
             has_rest ? "{id}" : "");
    ig_out_open(out, text, '{');
}

static void write_parameter(const char *path, ig_out *out) {
    if (path[strlen(path) - 1] != '*') return;
    ig_out_open(out, "parameters", '[');
    ig_out_open(out, NULL, '{');
    ig_out_string(out, "name", "id");
    ig_out_string(out, "in", "path");
    ig_out_bool(out, "required", true);
    ig_out_open(out, "schema", '{');
    ig_out_string(out, "type", "string");
    ig_out_close(out, '}');
    ig_out_close(out, '}');
    ig_out_close(out, ']');
}

/* content: {application/json: {schema: {$ref}}} */
static void write_content(const char *schema, ig_out *out) {
    char reference[96];
    snprintf(reference, sizeof reference, "#/components/schemas/%s", schema);
    ig_out_open(out, "content", '{');
    ig_out_open(out, "application/json", '{');
    ig_out_open(out, "schema", '{');
    ig_out_string(out, "$ref", reference);
    for (int i = 0; i < 3; i++) ig_out_close(out, '}');
}

static int body_bit(const ig_http_route *r) {
    int bit = 0;
    while (!(r->body >> bit & 1)) bit++;
    return bit;
}

static void write_responses(const ig_http_route *r, ig_out *out) {
    ig_out_open(out, "responses", '{');
    ig_out_open(out, r->missing ? "501" : "200", '{');
    ig_out_string(out, "description", r->missing ? r->missing : r->summary);
    ig_out_close(out, '}');
    ig_out_open(out, "default", '{');
    ig_out_string(out, "description", "An error.");
    write_content("Error", out);
    ig_out_close(out, '}');
    ig_out_close(out, '}');
}

static void write_operation(const ig_http_route *r, ig_out *out) {
    char method[16];
    size_t n = 0;
    for (; r->method[n] && n + 1 < sizeof method; n++) method[n] = (char)(r->method[n] | 0x20);
    method[n] = '\0';
    ig_out_open(out, method, '{');
    ig_out_string(out, "summary", r->summary);
    write_parameter(r->path, out);
    if (r->body) {
        ig_out_open(out, "requestBody", '{');
        ig_out_bool(out, "required", true);
        write_content(ig_body_name(body_bit(r)), out);
        ig_out_close(out, '}');
    }
    write_responses(r, out);
    ig_out_open(out, "security", '[');
    if (r->key != IG_KEY_PUBLIC) ig_out_text(out, "{\"bearer\":[]}");
    ig_out_close(out, ']');
    ig_out_close(out, '}');
}

/* Whether an earlier row has the path. */
static bool is_repeated(size_t row) {
    for (size_t i = 0; i < row; i++)
        if (strcmp(ig_route_row(i)->path, ig_route_row(row)->path) == 0) return true;
    return false;
}

static void write_paths(ig_out *out) {
    const ig_http_route *r, *other;
    ig_out_open(out, "paths", '{');
    for (size_t i = 0; (r = ig_route_row(i)); i++) {
        if (is_repeated(i)) continue;
        write_path(r->path, out);
        for (size_t k = i; (other = ig_route_row(k)); k++)
            if (strcmp(other->path, r->path) == 0) write_operation(other, out);
        ig_out_close(out, '}');
    }
    ig_out_close(out, '}');
}

void ig_routes_openapi(ig_out *out) {
    ig_out_open(out, NULL, '{');
    ig_out_string(out, "openapi", "3.0.3");
    ig_out_open(out, "info", '{');
    ig_out_string(out, "title", "ingot serve");
    ig_out_string(out, "version", INGOT_VERSION);
    ig_out_close(out, '}');
    write_paths(out);
    ig_out_open(out, "components", '{');
    ig_out_open(out, "securitySchemes", '{');
    ig_out_open(out, "bearer", '{');
    ig_out_string(out, "type", "http");
    ig_out_string(out, "scheme", "bearer");
    ig_out_close(out, '}');
    ig_out_close(out, '}');
    ig_out_open(out, "schemas", '{');
    for (int bit = 0; bit < IG_BODIES; bit++) write_schema(bit, out);
    write_error_schema(out);
    ig_out_close(out, '}');
    ig_out_close(out, '}');
    ig_out_close(out, '}');
    ig_out_text(out, "\n");
}

/* ---- Markdown ---- */

static void write_route_row(const ig_http_route *r, ig_out *out) {
    static const char *const keys[] = {"none", "any", "admin"};
    const bool has_v1 = strncmp(r->path, "/v1/", 4) == 0;
    char alias[128] = "", text[500];
    if (r->v1)
        snprintf(alias, sizeof alias, "`%s%s`", has_v1 ? "" : "/v1", r->path + (has_v1 ? 3 : 0));
    snprintf(text, sizeof text, "| `%s %s` | %s | %s | %s%s |\n", r->method, r->path, alias,
             keys[r->key], r->summary, r->missing ? " Not supported yet: 501." : "");
    ig_out_text(out, text);
}

static void describe_default(const ig_field *f, char *out, size_t room) {
    if (isnan(f->standard))
        out[0] = '\0';
    else if (f->types == IG_JSON_BOOLEAN)
        snprintf(out, room, "%s", f->standard == 1 ? "true" : "false");
    else
        snprintf(out, room, "%.15g", f->standard);
}

static void write_field_row(const ig_field *f, ig_out *out) {
    char what[160], standard[32], text[900];
    ig_field_describe(f, what, sizeof what);
    describe_default(f, standard, sizeof standard);
    snprintf(text, sizeof text, "| `%s` | %s | %s | %s |\n", f->name, what, standard, f->summary);
    ig_out_text(out, text);
}

/* The first route with a body; its fields are the table's. */
static const ig_http_route *route_of(int bit) {
    const ig_http_route *r;
    for (size_t i = 0; (r = ig_route_row(i)); i++)
        if (r->body == 1u << bit) return r;
    return NULL;
}

static void write_fields(int bit, ig_out *out) {
    char title[160];
    const ig_http_route *r = route_of(bit);
    if (!r) return;
    snprintf(title, sizeof title, "\n### `%s %s`\n\n", r->method, r->path);
    ig_out_text(out, title);
    ig_out_text(out, "| field | must be | default | |\n|---|---|---|---|\n");
    for (int i = 0; i < IG_FIELD_COUNT; i++) {
        const ig_field *f = ig_field_row(i);
        if ((f->bodies & 1u << bit) && !f->refusal) write_field_row(f, out);
    }
}

static void write_refused(ig_out *out) {
    char text[300];
    ig_out_text(out, "\n### Refused fields\n\n| field | why |\n|---|---|\n");
    for (int i = 0; i < IG_FIELD_COUNT; i++) {
        const ig_field *f = ig_field_row(i);
        if (!f->refusal) continue;
        snprintf(text, sizeof text, "| `%s` | %s |\n", f->name, f->refusal);
        ig_out_text(out, text);
    }
}

void ig_routes_markdown(ig_out *out) {
    const ig_http_route *r;
    ig_out_text(out, "## Routes\n\n| route | also | key | |\n|---|---|---|---|\n");
    for (size_t i = 0; (r = ig_route_row(i)); i++) write_route_row(r, out);
    ig_out_text(out, "\n## Fields\n\nA field that is null counts as not given. A value of another "
                     "type or beyond its limits is an error 400 that names the field. Fields "
                     "without a row are ignored, and logged once.\n");
    for (int bit = 0; bit < IG_BODIES; bit++) write_fields(bit, out);
    write_refused(out);
}
