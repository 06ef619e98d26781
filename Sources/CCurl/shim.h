#pragma once
#include <curl/curl.h>

// Swift cannot call C variadic functions, so each shape of curl_easy_setopt,
// curl_easy_getinfo and curl_multi_setopt that we use has a typed wrapper here.

static inline CURLcode ccurl_set_long(CURL *easy, CURLoption option, long value) {
    return curl_easy_setopt(easy, option, value);
}
static inline CURLcode ccurl_set_offset(CURL *easy, CURLoption option, curl_off_t value) {
    return curl_easy_setopt(easy, option, value);
}
static inline CURLcode ccurl_set_string(CURL *easy, CURLoption option, const char *value) {
    return curl_easy_setopt(easy, option, value);
}
static inline CURLcode ccurl_set_pointer(CURL *easy, CURLoption option, void *value) {
    return curl_easy_setopt(easy, option, value);
}

typedef size_t (*ccurl_data_callback)(char *bytes, size_t size, size_t count, void *context);
typedef curl_socket_t (*ccurl_open_socket_callback)(void *context, curlsocktype purpose, struct curl_sockaddr *address);
typedef int (*ccurl_prereq_callback)(void *context, char *ip, char *local_ip, int port, int local_port);
typedef int (*ccurl_socket_callback)(CURL *easy, curl_socket_t socket, int what, void *context, void *socket_context);
typedef int (*ccurl_timer_callback)(CURLM *multi, long milliseconds, void *context);

/// The callbacks of one transfer; all get `context`.
static inline void ccurl_set_callbacks(
    CURL *easy, void *context, ccurl_data_callback header, ccurl_data_callback body,
    ccurl_open_socket_callback open_socket, ccurl_prereq_callback prereq) {
    curl_easy_setopt(easy, CURLOPT_PRIVATE, context);
    curl_easy_setopt(easy, CURLOPT_HEADERFUNCTION, header);
    curl_easy_setopt(easy, CURLOPT_HEADERDATA, context);
    curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, body);
    curl_easy_setopt(easy, CURLOPT_WRITEDATA, context);
    curl_easy_setopt(easy, CURLOPT_OPENSOCKETFUNCTION, open_socket);
    curl_easy_setopt(easy, CURLOPT_OPENSOCKETDATA, context);
    curl_easy_setopt(easy, CURLOPT_PREREQFUNCTION, prereq);
    curl_easy_setopt(easy, CURLOPT_PREREQDATA, context);
}

static inline void ccurl_set_multi_callbacks(
    CURLM *multi, void *context, ccurl_socket_callback socket, ccurl_timer_callback timer) {
    curl_multi_setopt(multi, CURLMOPT_SOCKETFUNCTION, socket);
    curl_multi_setopt(multi, CURLMOPT_SOCKETDATA, context);
    curl_multi_setopt(multi, CURLMOPT_TIMERFUNCTION, timer);
    curl_multi_setopt(multi, CURLMOPT_TIMERDATA, context);
}

static inline void ccurl_set_multi_long(CURLM *multi, CURLMoption option, long value) {
    curl_multi_setopt(multi, option, value);
}

/// The transfer that a handle belongs to.
static inline void *ccurl_context(CURL *easy) {
    char *context = NULL;
    curl_easy_getinfo(easy, CURLINFO_PRIVATE, &context);
    return context;
}

static inline long ccurl_get_long(CURL *easy, CURLINFO info) {
    long value = 0;
    curl_easy_getinfo(easy, info, &value);
    return value;
}

// The macros have no value in Swift.
static const size_t ccurl_pause = CURL_WRITEFUNC_PAUSE;
static const curl_socket_t ccurl_bad_socket = CURL_SOCKET_BAD;
static const curl_socket_t ccurl_socket_timeout = CURL_SOCKET_TIMEOUT;
