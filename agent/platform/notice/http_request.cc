// Uses libevent's HTTP client, with a separate event loop for each request. libevent does not resolve the name,
// since it would use getaddrinfo.
#include "agent/platform/notice/http_request.h"

#include <event2/buffer.h>
#include <event2/bufferevent.h>
#include <event2/event.h>
#include <event2/http.h>
#include <event2/keyvalq_struct.h>

#include <algorithm>
#include <memory>
#include <optional>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "base/core/status_macros.h"
#include "base/io/event_loop.h"
#include "rendezvous/transport/address.h"

namespace muster::agent {
namespace {

constexpr size_t kMaxHeaderBytes = 8192;
constexpr size_t kMaxBufferedBytes = 16384;  // that have arrived and are not understood yet
constexpr uint32_t kHttpPort = 80;

template <typename T, void (*Free)(T*)>
struct FreeBy {
  void operator()(T* object) const { Free(object); }
};
using Base = std::unique_ptr<event_base, FreeBy<event_base, event_base_free>>;
using Event = std::unique_ptr<event, FreeBy<event, event_free>>;
using Connection = std::unique_ptr<evhttp_connection, FreeBy<evhttp_connection, evhttp_connection_free>>;

struct Exchange {
  event_base* base = nullptr;
  std::optional<absl::StatusOr<HttpAnswer>> result;  // only the first one is kept

  void End(absl::StatusOr<HttpAnswer> with) {
    if (!result) result = std::move(with);
    event_base_loopbreak(base);
  }
};

absl::Status StatusOf(evhttp_request_error error) {
  switch (error) {
    case EVREQ_HTTP_TIMEOUT:
      return absl::DeadlineExceededError("no answer in time");
    case EVREQ_HTTP_DATA_TOO_LONG:
      return absl::ResourceExhaustedError("the answer is too long");
    case EVREQ_HTTP_INVALID_HEADER:
      return absl::UnavailableError("the answer is not HTTP");
    default:
      return absl::UnavailableError("the connection ended before the answer was complete");
  }
}

void OnError(evhttp_request_error error, void* arg) { static_cast<Exchange*>(arg)->End(StatusOf(error)); }

void OnDone(evhttp_request* request, void* arg) {
  auto* const exchange = static_cast<Exchange*>(arg);
  if (request == nullptr || evhttp_request_get_response_code(request) == 0) {
    return exchange->End(absl::UnavailableError("cannot be reached"));
  }
  HttpAnswer answer;
  answer.status = evhttp_request_get_response_code(request);
  const evkeyvalq* const headers = evhttp_request_get_input_headers(request);
  for (const evkeyval* header = headers->tqh_first; header != nullptr; header = header->next.tqe_next) {
    answer.headers.emplace(absl::AsciiStrToLower(header->key), header->value);
  }
  evbuffer* const body = evhttp_request_get_input_buffer(request);
  answer.body.resize(std::min(evbuffer_get_length(body), kMaxMetadataBytes));
  evbuffer_copyout(body, answer.body.data(), answer.body.size());
  exchange->End(std::move(answer));
}

void OnStop(evutil_socket_t, short, void* arg) {
  static_cast<Exchange*>(arg)->End(absl::CancelledError("cancelled"));
}

void OnLimit(evutil_socket_t, short, void* arg) {
  static_cast<Exchange*>(arg)->End(absl::DeadlineExceededError("no answer in time"));
}

absl::Status Begin(const v1::Endpoint& server, const HttpRequest& request, evhttp_connection* connection,
                   Exchange* exchange) {
  evhttp_request* const sent = evhttp_request_new(&OnDone, exchange);
  if (sent == nullptr) return absl::ResourceExhaustedError("no memory for a request");
  evhttp_request_set_error_cb(sent, &OnError);
  evkeyvalq* const headers = evhttp_request_get_output_headers(sent);
  const bool is_ipv6 = server.host().find(':') != std::string::npos;
  const std::string host = is_ipv6 ? absl::StrCat("[", server.host(), "]") : server.host();
  const std::string port = server.port() == kHttpPort ? "" : absl::StrCat(":", server.port());
  evhttp_add_header(headers, "Host", absl::StrCat(host, port).c_str());
  evhttp_add_header(headers, "Connection", "close");
  for (const auto& [name, value] : request.headers) evhttp_add_header(headers, name.c_str(), value.c_str());
  const evhttp_cmd_type method = request.method == "PUT" ? EVHTTP_REQ_PUT : EVHTTP_REQ_GET;
  if (method == EVHTTP_REQ_PUT) evhttp_add_header(headers, "Content-Length", "0");
  if (evhttp_make_request(connection, sent, method, request.path.c_str()) == 0) return absl::OkStatus();
  return absl::UnavailableError("cannot be reached");  // libevent has freed the request
}

}  // namespace

absl::StatusOr<HttpAnswer> Ask(const v1::Endpoint& server, const HttpRequest& request, int stop_fd) {
  const BootTime deadline = EventLoop::Now() + request.limit;
  ASSIGN_OR_RETURN(const std::vector<std::string> addresses, rendezvous::ResolveHost(server.host()));
  const Base base(event_base_new());
  if (base == nullptr) return absl::ResourceExhaustedError("no event loop could be created for a request");
  Exchange exchange{base.get(), std::nullopt};
  const Event stop(event_new(base.get(), stop_fd, EV_READ, &OnStop, &exchange));
  const Event limit(event_new(base.get(), -1, 0, &OnLimit, &exchange));
  const Connection connection(evhttp_connection_base_new(base.get(), nullptr, addresses.front().c_str(),
                                                         static_cast<uint16_t>(server.port())));
  if (stop == nullptr || limit == nullptr || connection == nullptr) {
    return absl::ResourceExhaustedError("no memory for a connection");
  }
  const timeval left = absl::ToTimeval(std::max(deadline - EventLoop::Now(), absl::Milliseconds(1)));
  event_add(stop.get(), nullptr);
  event_add(limit.get(), &left);
  evhttp_connection_set_timeout_tv(connection.get(), &left);
  evhttp_connection_set_max_headers_size(connection.get(), kMaxHeaderBytes);
  evhttp_connection_set_max_body_size(connection.get(), kMaxMetadataBytes);
  // The other limits do not count a chunk's header. Beyond this one nothing is read, and the time runs out.
  bufferevent_setwatermark(evhttp_connection_get_bufferevent(connection.get()), EV_READ, 0, kMaxBufferedBytes);
  RETURN_IF_ERROR(Begin(server, request, connection.get(), &exchange));
  if (!exchange.result) event_base_dispatch(base.get());
  if (!exchange.result) return absl::UnavailableError("cannot be reached");
  return *std::move(exchange.result);
}

}  // namespace muster::agent
