/*
 * sd_notify.h - tells systemd about the service, and takes its sockets.
 */
#ifndef IG_SERVER_SD_NOTIFY_H
#define IG_SERVER_SD_NOTIFY_H

#include <stdbool.h>

/* Sends "READY=1", "STATUS=...", "WATCHDOG=1" or "STOPPING=1" to $NOTIFY_SOCKET, if it is set.
 * False: it is not, or sending failed. */
bool ig_sd_notify(const char *state);

/* The time within which WATCHDOG=1 must be sent again, in ms; 0: systemd does not watch. */
double ig_sd_watchdog_ms(void);

/* The number of listening sockets that systemd passed; they are 3, 4, ... */
int ig_sd_listen_fds(void);

#endif
