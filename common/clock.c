/* Clocks, and instants as text. The calendar is proleptic Gregorian, computed here: the C library's functions depend on the time
 * zone of the process or are not in the standard. */
#include "common/clock.h"

#include <stdatomic.h>
#include <stdio.h>
#include <time.h>

#define US_PER_SECOND INT64_C(1000000)
#define US_PER_DAY (INT64_C(86400) * US_PER_SECOND)
/* 0001-01-01T00:00:00Z and the microsecond after the end of the year 9999. */
#define INSTANT_MIN_US (INT64_C(-62135596800) * US_PER_SECOND)
#define INSTANT_END_US (INT64_C(253402300800) * US_PER_SECOND)

static atomic_bool is_scripted;
static atomic_uint_fast64_t scripted_monotonic_us;
static atomic_int_fast64_t scripted_wall_us;

static int64_t read_clock_us(clockid_t id) {
    struct timespec now;
    HD_CHECK(clock_gettime(id, &now) == 0);
    return (int64_t)now.tv_sec * US_PER_SECOND + now.tv_nsec / 1000;
}

uint64_t hd_clock_monotonic_us(void) {
    if (HD_UNLIKELY(atomic_load(&is_scripted))) return atomic_load(&scripted_monotonic_us);
    return (uint64_t)read_clock_us(CLOCK_MONOTONIC);
}

int64_t hd_clock_wall_us(void) {
    if (HD_UNLIKELY(atomic_load(&is_scripted))) return atomic_load(&scripted_wall_us);
    return read_clock_us(CLOCK_REALTIME);
}

void hd_clock_use_scripted(uint64_t monotonic_us, int64_t wall_us) {
    atomic_store(&scripted_monotonic_us, monotonic_us);
    atomic_store(&scripted_wall_us, wall_us);
    atomic_store(&is_scripted, true);
}

void hd_clock_advance(uint64_t us) {
    atomic_fetch_add(&scripted_monotonic_us, us);
    atomic_fetch_add(&scripted_wall_us, (int64_t)us);
}

void hd_clock_use_real(void) {
    atomic_store(&is_scripted, false);
}

/* Days since 1970-01-01, and back. Years begin in March here, so that the leap day is the last of its year; an era is 400 years. */
static int64_t days_of_date(int64_t year, int month, int day) {
    year -= month <= 2;
    int64_t era = (year >= 0 ? year : year - 399) / 400;
    int64_t year_of_era = year - era * 400;
    int64_t day_of_year = (153 * (month + (month > 2 ? -3 : 9)) + 2) / 5 + day - 1;
    return era * 146097 + year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year - 719468;
}

static void date_of_days(int64_t days, int64_t *year_out, int *month_out, int *day_out) {
    days += 719468;
    int64_t era = (days >= 0 ? days : days - 146096) / 146097;
    int64_t day_of_era = days - era * 146097;
    int64_t year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36524 - day_of_era / 146096) / 365;
    int64_t day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    int64_t month = (5 * day_of_year + 2) / 153; /* 0 is March */
    *day_out = (int)(day_of_year - (153 * month + 2) / 5 + 1);
    *month_out = (int)(month < 10 ? month + 3 : month - 9);
    *year_out = year_of_era + era * 400 + (*month_out <= 2);
}

static int days_in_month(int year, int month) {
    static const int days[] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
    bool is_leap = (year % 4 == 0 && year % 100 != 0) || year % 400 == 0;
    return days[month - 1] + (month == 2 && is_leap);
}

typedef struct scanner {
    const char *at, *end;
} scanner;

static bool take_char(scanner *s, char c) {
    if (s->at == s->end || *s->at != c) return false;
    s->at++;
    return true;
}

/* Exactly `digits` digits, their number within min..max. */
static bool take_number(scanner *s, int digits, int min, int max, int *number_out) {
    if (s->end - s->at < digits) return false;
    int number = 0;
    for (int i = 0; i < digits; i++) {
        char c = s->at[i];
        if (c < '0' || c > '9') return false;
        number = number * 10 + (c - '0');
    }
    s->at += digits;
    *number_out = number;
    return number >= min && number <= max;
}

/* date = YYYY "-" MM "-" DD */
static bool take_date(scanner *s, int64_t *days_out) {
    int year, month, day;
    if (!take_number(s, 4, 1, 9999, &year) || !take_char(s, '-')) return false;
    if (!take_number(s, 2, 1, 12, &month) || !take_char(s, '-')) return false;
    if (!take_number(s, 2, 1, days_in_month(year, month), &day)) return false;
    *days_out = days_of_date(year, month, day);
    return true;
}

/* fraction = ("." | ",") digit { digit }; what is beyond the microsecond is cut. */
static bool take_fraction(scanner *s, int64_t *us_out) {
    *us_out = 0;
    if (!take_char(s, '.') && !take_char(s, ',')) return true;
    int64_t unit = US_PER_SECOND;
    const char *first = s->at;
    for (; s->at < s->end && *s->at >= '0' && *s->at <= '9'; s->at++) {
        unit /= 10;
        *us_out += (*s->at - '0') * unit;
    }
    return s->at > first;
}

/* time = hh ":" mm [ ":" ss [ fraction ] ] */
static bool take_time(scanner *s, int64_t *us_out) {
    int hour, minute, second = 0;
    int64_t fraction_us = 0;
    if (!take_number(s, 2, 0, 23, &hour) || !take_char(s, ':') || !take_number(s, 2, 0, 59, &minute)) return false;
    if (take_char(s, ':') && (!take_number(s, 2, 0, 59, &second) || !take_fraction(s, &fraction_us))) return false;
    *us_out = ((int64_t)hour * 3600 + minute * 60 + second) * US_PER_SECOND + fraction_us;
    return true;
}

/* offset = "Z" | "z" | ("+" | "-") hh [ ":" mm ] | nothing, which is UTC */
static bool take_offset(scanner *s, int64_t *us_out) {
    *us_out = 0;
    if (s->at == s->end || take_char(s, 'Z') || take_char(s, 'z')) return true;
    bool is_west = take_char(s, '-');
    if (!is_west && !take_char(s, '+')) return false;
    int hour, minute = 0;
    if (!take_number(s, 2, 0, 23, &hour)) return false;
    if (take_char(s, ':') && !take_number(s, 2, 0, 59, &minute)) return false;
    int64_t us = ((int64_t)hour * 3600 + minute * 60) * US_PER_SECOND;
    *us_out = is_west ? -us : us;
    return true;
}

bool hd_instant_parse(hd_str text, int64_t *us_out) {
    if (text.size == 0) return false;
    scanner s = {.at = text.data, .end = text.data + text.size};
    int64_t days, time_us = 0, offset_us = 0;
    if (!take_date(&s, &days)) return false;
    if (take_char(&s, 'T') || take_char(&s, 't') || take_char(&s, ' ')) {
        if (!take_time(&s, &time_us) || !take_offset(&s, &offset_us)) return false;
    }
    int64_t us = days * US_PER_DAY + time_us - offset_us;
    if (s.at != s.end || us < INSTANT_MIN_US || us >= INSTANT_END_US) return false;
    *us_out = us;
    return true;
}

size_t hd_instant_format(int64_t us, char text_out[HD_INSTANT_TEXT_MAX]) {
    int64_t days = us / US_PER_DAY, rest = us % US_PER_DAY;
    if (rest < 0) {
        rest += US_PER_DAY;
        days--;
    }
    int64_t year;
    int month, day;
    date_of_days(days, &year, &month, &day);
    int second = (int)(rest / US_PER_SECOND), fraction = (int)(rest % US_PER_SECOND);
    /* Years beyond four digits can only come from a caller's arithmetic; ISO 8601 writes them with a sign. */
    const char *year_format = year >= 0 && year <= 9999 ? "%04lld" : "%+07lld";
    size_t size = (size_t)snprintf(text_out, HD_INSTANT_TEXT_MAX, year_format, (long long)year);
    size += (size_t)snprintf(text_out + size, HD_INSTANT_TEXT_MAX - size, "-%02d-%02dT%02d:%02d:%02d", month, day, second / 3600,
                             second / 60 % 60, second % 60);
    if (fraction != 0) {
        size += (size_t)snprintf(text_out + size, HD_INSTANT_TEXT_MAX - size, ".%06d", fraction);
        while (text_out[size - 1] == '0') size--;
    }
    text_out[size++] = 'Z';
    text_out[size] = '\0';
    return size;
}
