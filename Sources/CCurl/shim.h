#pragma once
#include <curl/curl.h>

// Swift cannot call variadic C functions. So each argument type of curl_easy_setopt, curl_easy_getinfo,
// curl_multi_setopt and curl_share_setopt that Haul uses has a typed wrapper here.

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

/// All callbacks of a transfer get the same `context`.
static inline void ccurl_set_callbacks(
    CURL *easy, void *context, curl_write_callback header, curl_write_callback body,
    curl_opensocket_callback open_socket, curl_prereq_callback before_request) {
    curl_easy_setopt(easy, CURLOPT_PRIVATE, context);
    curl_easy_setopt(easy, CURLOPT_HEADERFUNCTION, header);
    curl_easy_setopt(easy, CURLOPT_HEADERDATA, context);
    curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, body);
    curl_easy_setopt(easy, CURLOPT_WRITEDATA, context);
    curl_easy_setopt(easy, CURLOPT_OPENSOCKETFUNCTION, open_socket);
    curl_easy_setopt(easy, CURLOPT_OPENSOCKETDATA, context);
    curl_easy_setopt(easy, CURLOPT_PREREQFUNCTION, before_request);
    curl_easy_setopt(easy, CURLOPT_PREREQDATA, context);
}

/// Sets the source of a request's body. libcurl calls `seek` to start the body again when it repeats the request on
/// another connection.
static inline void ccurl_set_source(
    CURL *easy, void *context, curl_read_callback read, curl_seek_callback seek) {
    curl_easy_setopt(easy, CURLOPT_READFUNCTION, read);
    curl_easy_setopt(easy, CURLOPT_READDATA, context);
    curl_easy_setopt(easy, CURLOPT_SEEKFUNCTION, seek);
    curl_easy_setopt(easy, CURLOPT_SEEKDATA, context);
}

/// Sets the callback for when a connection that this transfer opened is closed. The connection may outlive the
/// transfer, so `context` must as well.
static inline void ccurl_set_close_callback(CURL *easy, void *context, curl_closesocket_callback close_socket) {
    curl_easy_setopt(easy, CURLOPT_CLOSESOCKETFUNCTION, close_socket);
    curl_easy_setopt(easy, CURLOPT_CLOSESOCKETDATA, context);
}

static inline long ccurl_get_long(CURL *easy, CURLINFO info) {
    long value = 0;
    curl_easy_getinfo(easy, info, &value);
    return value;
}
static inline curl_off_t ccurl_get_offset(CURL *easy, CURLINFO info) {
    curl_off_t value = 0;
    curl_easy_getinfo(easy, info, &value);
    return value;
}
static inline struct curl_tlssessioninfo *ccurl_get_tls(CURL *easy) {
    struct curl_tlssessioninfo *value = 0;
    curl_easy_getinfo(easy, CURLINFO_TLS_SSL_PTR, &value);
    return value;
}
static inline void *ccurl_get_private(CURL *easy) {
    void *value = 0;
    curl_easy_getinfo(easy, CURLINFO_PRIVATE, &value);
    return value;
}

static inline void ccurl_multi_set_callbacks(
    CURLM *multi, void *context, curl_socket_callback socket, curl_multi_timer_callback timer) {
    curl_multi_setopt(multi, CURLMOPT_SOCKETFUNCTION, socket);
    curl_multi_setopt(multi, CURLMOPT_SOCKETDATA, context);
    curl_multi_setopt(multi, CURLMOPT_TIMERFUNCTION, timer);
    curl_multi_setopt(multi, CURLMOPT_TIMERDATA, context);
}
static inline CURLMcode ccurl_multi_set_long(CURLM *multi, CURLMoption option, long value) {
    return curl_multi_setopt(multi, option, value);
}

static inline CURLSHcode ccurl_share(CURLSH *share, curl_lock_data data) {
    return curl_share_setopt(share, CURLSHOPT_SHARE, data);
}
