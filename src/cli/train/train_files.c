/*
 * Files of a training run: the loss history inside the checkpoint's progress, and the lock beside
 * the checkpoint.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli/app/output.h"
#include "cli/train/cmd_train.h"

/* ---- The loss history ---- */

enum { HISTORY_POINTS = 1000 };

/* [step, loss, step, loss ...]; longer curves are averaged over neighboring points. */
static json_t *curve_json(const train_curve *c) {
    const size_t each = c->count / HISTORY_POINTS + 1;
    json_t *list = json_array();
    for (size_t i = 0; i < c->count; i += each) {
        const size_t end = i + each < c->count ? i + each : c->count;
        double sum = 0;
        for (size_t k = i; k < end; k++) sum += c->loss[k];
        json_array_append_new(list, json_integer((json_int_t)c->step[end - 1]));
        json_array_append_new(list, ig_json_real((double)(float)(sum / (double)(end - i))));
    }
    return list;
}

json_t *train_history_json(const trainer *t) {
    return json_pack("{s:o, s:o}", "loss", curve_json(&t->curve), "val_loss",
                     curve_json(&t->val_curve));
}

ig_status train_add_point(const trainer *t, train_curve *curve, double step, double loss) {
    const ig_allocator *a = &t->cli->allocator;
    if (!IG_GROW(a, curve->step, &curve->step_room, curve->count + 1) ||
        !IG_GROW(a, curve->loss, &curve->loss_room, curve->count + 1))
        return IG_FAIL(IG_ERR_MEMORY, "train: no memory for %zu losses", curve->count + 1);
    curve->step[curve->count] = step;
    curve->loss[curve->count++] = loss;
    return IG_OK;
}

/* Skips points that are not finite or are later than the checkpoint. */
static ig_status restore_curve(const trainer *t, const json_t *list, train_curve *curve) {
    for (size_t i = 0; i + 1 < json_array_size(list); i += 2) {
        const json_t *step = json_array_get(list, i), *loss = json_array_get(list, i + 1);
        if (!json_is_integer(step) || !json_is_number(loss)) continue;
        if (json_integer_value(step) < 0 || json_integer_value(step) > t->first_step) continue;
        IG_TRY(
            train_add_point(t, curve, (double)json_integer_value(step), json_number_value(loss)));
    }
    return IG_OK;
}

ig_status train_restore_history(trainer *t, const json_t *progress) {
    const json_t *history = json_object_get(progress, "history");
    IG_TRY(restore_curve(t, json_object_get(history, "loss"), &t->curve));
    return restore_curve(t, json_object_get(history, "val_loss"), &t->val_curve);
}

/* ---- The lock ---- */

/* The lock ends with its process, so a leftover file locks nothing. */
static ig_status refuse(const trainer *t, int fd) {
    char text[32] = "";
    const ssize_t got = pread(fd, text, sizeof text - 1, 0);
    const long pid = got > 0 ? strtol(text, NULL, 10) : 0;
    return IG_FAIL(IG_ERR_IO,
                   "%s: another training run (process %ld) writes this file; wait for it, or "
                   "choose another --out",
                   t->out, pid);
}

/* Whether the path still refers to the open file: its last owner may have removed it meanwhile. */
static bool is_current(int fd, const char *path) {
    struct stat open_one, named;
    return fstat(fd, &open_one) == 0 && stat(path, &named) == 0 &&
           open_one.st_dev == named.st_dev && open_one.st_ino == named.st_ino;
}

static void lock_path(const trainer *t, char out[PATH_MAX]) {
    char real[PATH_MAX];
    snprintf(out, PATH_MAX, "%.*s.lock", PATH_MAX - 8, realpath(t->out, real) ? real : t->out);
}

ig_status train_lock(trainer *t) {
    char path[PATH_MAX], pid[32];
    lock_path(t, path);
    for (;;) {
        const int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
        if (fd < 0) return IG_OK; /* saving the checkpoint fails with a clearer error */
        if (flock(fd, LOCK_EX | LOCK_NB) != 0) {
            const int why = errno;
            const ig_status status = why == EWOULDBLOCK ? refuse(t, fd) : IG_OK;
            close(fd); /* the file system does not support locks */
            return status;
        }
        if (is_current(fd, path)) {
            const int bytes = snprintf(pid, sizeof pid, "%ld\n", (long)getpid());
            (void)!ftruncate(fd, 0);
            (void)!pwrite(fd, pid, (size_t)bytes, 0);
            t->lock = fd;
            snprintf(t->lock_path, sizeof t->lock_path, "%s", path);
            return IG_OK;
        }
        close(fd);
    }
}

void train_unlock(trainer *t) {
    if (t->lock <= 0) return;
    unlink(t->lock_path);
    close(t->lock);
    t->lock = 0;
}
