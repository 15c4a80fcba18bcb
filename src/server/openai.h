/*
 * openai.h - the routes of OpenAI's API, and those that llama-server and vLLM add to it.
 */
#ifndef IG_SERVER_OPENAI_H
#define IG_SERVER_OPENAI_H

#include "server/server.h"

void ig_openai_chat(ig_server *server, ig_exchange *x);
void ig_openai_completions(ig_server *server, ig_exchange *x);
void ig_openai_embeddings(ig_server *server, ig_exchange *x);
void ig_openai_models(ig_server *server, ig_exchange *x);
void ig_openai_model(ig_server *server, ig_exchange *x);
void ig_openai_rerank(ig_server *server, ig_exchange *x);

/* Token ids instead of a reply. */
void ig_openai_render_chat(ig_server *server, ig_exchange *x);
void ig_openai_render_completion(ig_server *server, ig_exchange *x);

void ig_serve_tokenize(ig_server *server, ig_exchange *x);
void ig_serve_detokenize(ig_server *server, ig_exchange *x);
void ig_serve_apply_template(ig_server *server, ig_exchange *x);

#endif
