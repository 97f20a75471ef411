/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Timer wheel: many moments, most of which are taken back before they come. Adding and taking back
 * cost a few instructions however many there are. A timer is embedded in its object; the wheel
 * allocates nothing and runs nothing: the owner asks which timers have come. Never early, and late
 * by at most ORL_WHEEL_TICK_NS plus the time between two questions. No lock of its own.
 */
#ifndef BASE_WHEEL_H
#define BASE_WHEEL_H

#include <stdbool.h>
#include <stdint.h>

#include "base/list.h"

#define ORL_WHEEL_TICK_NS (UINT64_C(1) << 20)
#define ORL_WHEEL_SLOTS   64
#define ORL_WHEEL_LEVELS  11 /* of 6 bits each: all ticks there are */

/* All zero: not set. */
struct orl_timer {
    struct orl_list link;
    uint64_t tick;
    uint8_t level;
    uint8_t slot;
    bool is_set;
};

struct orl_wheel {
    uint64_t now;                    /* tick up to which it has been turned */
    uint64_t used[ORL_WHEEL_LEVELS]; /* bit i: slot i holds a timer */
    struct orl_list slot[ORL_WHEEL_LEVELS][ORL_WHEEL_SLOTS];
    struct orl_list due; /* their moment has come */
};

/* An empty wheel that begins at this moment, in nanoseconds like all of them. */
void orl_wheel_init(struct orl_wheel *wheel, uint64_t now_ns);

/* Set a timer that is not set. A moment that has passed is due at once; ORL_NEVER is legal. */
void orl_wheel_add(struct orl_wheel *wheel, struct orl_timer *timer, uint64_t when_ns);

/* Take it back. Harmless when it is not set. */
void orl_wheel_del(struct orl_wheel *wheel, struct orl_timer *timer);

/* A timer whose moment is not after now_ns, no longer set; NULL when there is none left. */
struct orl_timer *orl_wheel_pop(struct orl_wheel *wheel, uint64_t now_ns);

/* No timer comes before this moment: when to ask next. ORL_NEVER without timers. */
uint64_t orl_wheel_next(const struct orl_wheel *wheel);

#endif
