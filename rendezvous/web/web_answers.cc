#include "rendezvous/web/web_answers.h"

#include <string_view>

#include "absl/strings/ascii.h"
#include "base/core/status_macros.h"
#include "base/crypto/digest.h"
#include "rendezvous/web/metrics_text.h"
#include "rendezvous/web/page.h"
#include "rendezvous/web/status_json.h"

namespace muster::rendezvous {
namespace {

constexpr std::string_view kBearer = "bearer ";

// Their hashes are compared: how long that takes tells nothing of the token.
bool HasToken(const WebRequest& request, const std::string& token) {
  const std::string_view given = request.authorization;
  if (given.size() <= kBearer.size()) return false;
  if (absl::AsciiStrToLower(AsAbsl(given.substr(0, kBearer.size()))) != AsAbsl(kBearer)) return false;
  return Sha256(given.substr(kBearer.size())) == Sha256(token);
}

// A page of another site that has made its name lead here would be named so.
bool NamesThisMachine(const std::string& host) {
  const std::string name = absl::AsciiStrToLower(host.substr(0, host.find(':')));
  return host.empty() || host.front() == '[' || name == "localhost" ||
         name.find_first_not_of("0123456789.") == std::string::npos;
}

}  // namespace

WebReply AnswerTo(const WebRequest& request, const WebAccess& access,
                  const std::function<std::shared_ptr<const JobSeen>()>& look) {
  const std::string& path = request.path;
  const bool is_health = path == "/healthz" || path == "/readyz";
  if (path == "/") return {.type = "text/html; charset=utf-8", .body = std::string(kPage)};
  if (!is_health && path != "/metrics" && path != "/status.json") {
    return {.code = 404, .body = "not found: there are /, /metrics, /status.json, /healthz and /readyz\n"};
  }
  if (access.token.empty() && !NamesThisMachine(request.host))
    return {.code = 403, .body = "without --http-token-file only an IP address or localhost may be the host\n"};
  if (!is_health && !access.token.empty() && !HasToken(request, access.token))
    return {.code = 401, .body = "needs the header Authorization: Bearer, with the token of --http-token-file\n"};
  const std::shared_ptr<const JobSeen> seen = look();
  if (seen == nullptr) return {.code = 503, .body = "the coordinator does not answer\n"};
  if (path == "/healthz") return {.body = "ok\n"};
  if (path == "/readyz") {
    const bool runs = seen->view.state() == v1::JobView::STATE_RUNNING;
    return {.code = runs ? 200 : 503, .body = runs ? "ok\n" : "no round runs\n"};
  }
  if (path == "/metrics")
    return {.type = kMetricsType, .body = MetricsText(seen->view, access.version, seen->at, seen->began)};
  return {.type = "application/json", .body = StatusJson(seen->view, seen->at)};
}

}  // namespace muster::rendezvous
