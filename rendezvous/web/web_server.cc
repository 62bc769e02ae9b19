// libevent's HTTP server, with an event loop of its own in a thread of its own. A visitor's handler waits there
// for the job's loop, which it asks at most once in kLookKept.
#include "rendezvous/web/web_server.h"

#include <arpa/inet.h>
#include <event2/buffer.h>
#include <event2/bufferevent.h>
#include <event2/event.h>
#include <event2/http.h>
#include <event2/listener.h>
#include <netinet/in.h>
#include <sys/eventfd.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <list>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "base/core/status_macros.h"
#include "base/io/mutex.h"
#include "base/io/owned_fd.h"
#include "base/io/thread.h"

namespace muster::rendezvous {
namespace {

constexpr int kBacklog = 16;
constexpr absl::Duration kStopChecked = absl::Milliseconds(50);  // while a handler waits for the job's loop
constexpr absl::Duration kCounted = absl::Milliseconds(500);     // between two counts of the visitors

template <typename T, void (*Free)(T*)>
struct FreeBy {
  void operator()(T* object) const { Free(object); }
};
using Base = std::unique_ptr<event_base, FreeBy<event_base, event_base_free>>;
using Event = std::unique_ptr<event, FreeBy<event, event_free>>;
using Http = std::unique_ptr<evhttp, FreeBy<evhttp, evhttp_free>>;

std::string HeaderOf(evhttp_request* request, const char* name) {
  const char* const value = evhttp_find_header(evhttp_request_get_input_headers(request), name);
  return value == nullptr ? "" : value;
}

struct SocketName {
  sockaddr_storage name{};
  socklen_t size = 0;
  const sockaddr* plain() const { return reinterpret_cast<const sockaddr*>(&name); }
};

// address: "127.0.0.1:9400", "[::1]:9400"; nullopt: it is no such one.
std::optional<SocketName> NameOf(const std::string& address) {
  const size_t colon = address.rfind(':');
  uint32_t port = 0;
  if (colon == std::string::npos || !absl::SimpleAtoi(address.substr(colon + 1), &port)) return std::nullopt;
  SocketName name;
  auto* const v4 = reinterpret_cast<sockaddr_in*>(&name.name);
  auto* const v6 = reinterpret_cast<sockaddr_in6*>(&name.name);
  if (inet_pton(AF_INET, address.substr(0, colon).c_str(), &v4->sin_addr) == 1) {
    v4->sin_family = AF_INET;
    v4->sin_port = htons(static_cast<uint16_t>(port));
    name.size = sizeof(*v4);
    return name;
  }
  const std::string within = address.starts_with('[') ? address.substr(1, colon - 2) : "";
  if (inet_pton(AF_INET6, within.c_str(), &v6->sin6_addr) != 1) return std::nullopt;
  v6->sin6_family = AF_INET6;
  v6->sin6_port = htons(static_cast<uint16_t>(port));
  name.size = sizeof(*v6);
  return name;
}

absl::StatusOr<OwnedFd> ListenAt(const std::string& address) {
  const std::optional<SocketName> name = NameOf(address);
  if (!name) return absl::InvalidArgumentError("not an IP address with a port");
  OwnedFd fd(socket(name->name.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd.valid()) return absl::ErrnoToStatus(errno, "making a socket");
  const int on = 1;
  setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
  if (bind(fd.get(), name->plain(), name->size) != 0) return absl::ErrnoToStatus(errno, "bind");
  if (listen(fd.get(), kBacklog) != 0) return absl::ErrnoToStatus(errno, "listen");
  return fd;
}

int PortOf(int fd) {
  sockaddr_in6 name{};  // the port of both families is at one place
  socklen_t size = sizeof(name);
  return getsockname(fd, reinterpret_cast<sockaddr*>(&name), &size) == 0 ? ntohs(name.sin6_port) : 0;
}

}  // namespace

// The way of the server's thread to the job's loop.
struct WebServer::Looking {
  EventLoop* loop = nullptr;
  std::function<std::optional<v1::JobView>()> look;  // on the loop thread; empty: the server has ended
  std::atomic<bool> is_over = false;

  Mutex mutex;
  Condition answered;
  bool is_open ABSL_GUARDED_BY(mutex) = false;  // a question
  BootTime asked_at ABSL_GUARDED_BY(mutex) = absl::InfinitePast();
  std::shared_ptr<const JobSeen> seen
      ABSL_GUARDED_BY(mutex);  // the newest answer; nullptr: the core had not begun
  BootTime seen_at ABSL_GUARDED_BY(mutex) = absl::InfinitePast();
  std::optional<absl::Time> began ABSL_GUARDED_BY(mutex);  // once for all answers: they know it to a millisecond

  // On the server's thread. A question that the loop has not answered in time is answered once the loop goes on;
  // until then nobody waits for it any more.
  static std::shared_ptr<const JobSeen> Look(const std::shared_ptr<Looking>& self) {
    const MutexLock lock(self->mutex);
    if (self->seen != nullptr && EventLoop::Now() < self->seen_at + kLookKept) return self->seen;
    if (!std::exchange(self->is_open, true)) {
      self->asked_at = EventLoop::Now();
      self->loop->Post([self] { self->Answer(); });
    }
    const auto is_told = [&self]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(self->mutex) { return !self->is_open; };
    while (!self->is_over && EventLoop::Now() < self->asked_at + kLookLimit) {
      if (self->answered.WaitFor(self->mutex, absl::ToChronoNanoseconds(kStopChecked), is_told)) return self->seen;
    }
    return nullptr;
  }

  // On the loop thread.
  void Answer() {
    std::optional<v1::JobView> view;
    if (look) view = look();
    const absl::Time now = absl::Now();
    const MutexLock lock(mutex);
    seen = nullptr;
    if (view) {
      if (!began) began = now - absl::Milliseconds(view->coordinator_ms());
      seen = std::make_shared<const JobSeen>(JobSeen{.view = *std::move(view), .at = now, .began = *began});
    }
    seen_at = EventLoop::Now();
    is_open = false;
    answered.NotifyAll();
  }
};

// The server's thread and what lives on it.
class WebServer::Thread {
 public:
  Thread(OwnedFd listener, const WebAccess& access, std::shared_ptr<Looking> looking)
      : listener_(std::move(listener)),
        access_(access),
        looking_(std::move(looking)),
        stop_(eventfd(0, EFD_CLOEXEC)) {}
  ~Thread() {
    const uint64_t one = 1;
    (void)!write(stop_.get(), &one, sizeof(one));
    if (thread_.joinable()) thread_.join();
    http_.reset();
    for (const Visitor& visitor : visitors_) bufferevent_decref(visitor.connection);
  }
  Thread(const Thread&) = delete;
  Thread& operator=(const Thread&) = delete;

  absl::Status Start() {
    base_.reset(event_base_new());
    if (base_ != nullptr) http_.reset(evhttp_new(base_.get()));
    if (http_ == nullptr || !stop_.valid()) return absl::ResourceExhaustedError("no descriptors for a web server");
    stopped_.reset(event_new(base_.get(), stop_.get(), EV_READ, &OnStop, base_.get()));
    recount_.reset(event_new(base_.get(), -1, EV_PERSIST, &OnRecount, this));
    event_add(stopped_.get(), nullptr);
    const timeval again = absl::ToTimeval(kCounted);
    event_add(recount_.get(), &again);
    event_set_log_callback([](int, const char*) {});  // it would write to standard error
    evhttp_set_allowed_methods(http_.get(), EVHTTP_REQ_GET | EVHTTP_REQ_HEAD);
    evhttp_set_max_headers_size(http_.get(), kMaxWebRequestBytes);
    evhttp_set_max_body_size(http_.get(), 0);
    const timeval limit = absl::ToTimeval(kWebVisitLimit);
    evhttp_set_timeout_tv(http_.get(), &limit);
    evhttp_set_bevcb(http_.get(), &OnVisitor, this);
    evhttp_set_gencb(http_.get(), &OnRequest, this);
    bound_ = evhttp_accept_socket_with_handle(http_.get(), listener_.get());
    if (bound_ == nullptr) return absl::ResourceExhaustedError("no memory for a web server");
    (void)listener_.Release();  // it is the server's now
    // No descriptor is left: visitors wait in the kernel until the next count.
    evconnlistener_set_error_cb(evhttp_bound_socket_get_listener(bound_),
                                [](evconnlistener* listener, void*) { evconnlistener_disable(listener); });
    ASSIGN_OR_RETURN(thread_, StartThread([this] { event_base_dispatch(base_.get()); }));
    return absl::OkStatus();
  }

 private:
  static void OnStop(evutil_socket_t, short, void* base) { event_base_loopbreak(static_cast<event_base*>(base)); }

  // libevent tells of no visitor's end: each connection is kept until it has lost its callbacks, which the server
  // takes from it at its end.
  static bufferevent* OnVisitor(event_base* base, void* arg) {
    auto* const self = static_cast<Thread*>(arg);
    bufferevent* const connection = bufferevent_socket_new(base, -1, BEV_OPT_CLOSE_ON_FREE);
    if (connection == nullptr) return nullptr;
    bufferevent_setwatermark(connection, EV_READ, 0, 2 * kMaxWebRequestBytes);  // also while it is answered
    bufferevent_incref(connection);
    self->Count(1);  // the new one has no callbacks yet
    self->visitors_.push_back({connection, EventLoop::Now()});
    return connection;
  }
  static void OnRecount(evutil_socket_t, short, void* arg) { static_cast<Thread*>(arg)->Count(0); }

  void Count(size_t coming) {
    const BootTime now = EventLoop::Now();
    visitors_.remove_if([now](const Visitor& visitor) {
      bufferevent_data_cb reads = nullptr, writes = nullptr;
      bufferevent_event_cb ends = nullptr;
      bufferevent_getcb(visitor.connection, &reads, &writes, &ends, nullptr);
      const bool is_gone = reads == nullptr && writes == nullptr && ends == nullptr;
      if (is_gone)
        bufferevent_decref(visitor.connection);
      else if (now > visitor.since + kWebStay)
        shutdown(bufferevent_getfd(visitor.connection), SHUT_RDWR);
      return is_gone;
    });
    evconnlistener* const listener = evhttp_bound_socket_get_listener(bound_);
    if (visitors_.size() + coming >= kMaxWebVisitors) {
      evconnlistener_disable(listener);
    } else {
      evconnlistener_enable(listener);
    }
  }

  static void OnRequest(evhttp_request* request, void* arg) {
    auto* const self = static_cast<Thread*>(arg);
    if (self->looking_->is_over) return evhttp_send_error(request, 503, nullptr);
    const char* const path = evhttp_uri_get_path(evhttp_request_get_evhttp_uri(request));
    const WebRequest asked{.path = path == nullptr ? "" : path,
                           .host = HeaderOf(request, "Host"),
                           .authorization = HeaderOf(request, "Authorization")};
    const WebReply reply = AnswerTo(asked, self->access_, [self] { return Looking::Look(self->looking_); });
    // A visitor that reads its answer says nothing.
    const timeval limit = absl::ToTimeval(kWebVisitLimit);
    bufferevent_set_timeouts(evhttp_connection_get_bufferevent(evhttp_request_get_connection(request)), nullptr,
                             &limit);
    evkeyvalq* const headers = evhttp_request_get_output_headers(request);
    for (const auto& [name, value] : std::initializer_list<std::pair<const char*, const char*>>{
             {"Content-Type", reply.type.c_str()},
             {"Cache-Control", "no-store"},
             {"X-Content-Type-Options", "nosniff"},
             {"Content-Security-Policy",
              "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; connect-src 'self'; "
              "img-src data:; frame-ancestors 'none'; base-uri 'none'; form-action 'none'"},
             {"Connection", "close"}})
      evhttp_add_header(headers, name, value);
    if (reply.code == 401) evhttp_add_header(headers, "WWW-Authenticate", "Bearer");
    evhttp_add_header(headers, "Content-Length", absl::StrCat(reply.body.size()).c_str());
    if (evhttp_request_get_command(request) == EVHTTP_REQ_GET)
      evbuffer_add(evhttp_request_get_output_buffer(request), reply.body.data(), reply.body.size());
    evhttp_send_reply(request, reply.code, nullptr, nullptr);
  }

  struct Visitor {
    bufferevent* connection;  // with a reference of ours
    BootTime since;
  };

  OwnedFd listener_;
  const WebAccess access_;
  const std::shared_ptr<Looking> looking_;
  const OwnedFd stop_;  // eventfd
  Base base_;
  std::list<Visitor> visitors_;
  Http http_;
  Event stopped_, recount_;
  evhttp_bound_socket* bound_ = nullptr;  // of http_
  std::thread thread_;
};

WebServer::WebServer(EventLoop* loop, Plan plan, std::function<std::optional<v1::JobView>()> look,
                     std::function<void(const Note&)> note)
    : plan_(std::move(plan)), note_(std::move(note)), looking_(std::make_shared<Looking>()) {
  looking_->loop = loop;
  looking_->look = std::move(look);
}

WebServer::~WebServer() {
  looking_->is_over = true;
  thread_.reset();
  looking_->look = nullptr;
}

void WebServer::OnTick(BootTime now) {
  if (thread_ != nullptr || now < listen_at_) return;
  listen_at_ = now + kListenAgain;
  const absl::Status status = Listen();
  const std::string why(AsStd(status.message()));
  if (status.ok()) {
    const std::string host = plan_.address.substr(0, plan_.address.rfind(':'));
    note_({Severity::kInfo, absl::StrCat("--http: http://", host, ":", port_, "/ shows the job")});
  }
  if (!status.ok() && why != complained_) {
    note_({Severity::kWarning,
           absl::StrCat("--http ", plan_.address, ": cannot listen (", why, "); trying again each second")});
  }
  complained_ = why;
}

WebServer::Plan WebPlanFrom(const v1::NodeConfig& config) {
  return {.address = config.http(), .access = {.token = config.http_token(), .version = config.version()}};
}

absl::Status WebServer::Listen() {
  ASSIGN_OR_RETURN(OwnedFd listener, ListenAt(plan_.address));
  const int port = PortOf(listener.get());
  auto thread = std::make_unique<Thread>(std::move(listener), plan_.access, looking_);
  RETURN_IF_ERROR(thread->Start());
  thread_ = std::move(thread);
  port_ = port;
  return absl::OkStatus();
}

}  // namespace muster::rendezvous
