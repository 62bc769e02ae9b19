#include "rendezvous/web/event_json.h"

#include "absl/strings/str_cat.h"
#include "nlohmann/json.hpp"
#include "rendezvous/web/view_words.h"

namespace muster::rendezvous {
namespace {

using Json = nlohmann::ordered_json;

Json RecoveryObject(const v1::Recovery& recovery) {
  Json object;
  if (recovery.has_detecting_ms()) object["detecting_s"] = Seconds(recovery.detecting_ms());
  if (recovery.has_draining_ms()) object["draining_s"] = Seconds(recovery.draining_ms());
  if (recovery.has_gathering_ms()) object["gathering_s"] = Seconds(recovery.gathering_ms());
  if (recovery.has_starting_ms()) object["starting_s"] = Seconds(recovery.starting_ms());
  return object;
}

}  // namespace

absl::Time TimeOf(const v1::Event& event, absl::Time now) {
  return event.wall_ms() != 0 ? absl::FromUnixMillis(event.wall_ms()) : now - absl::Milliseconds(event.age_ms());
}

std::string EventJson(const v1::Event& event, const std::string& run_id, absl::Time now) {
  Json object;
  object["time"] = Rfc3339(TimeOf(event, now));
  object["event"] = event.name();
  object["severity"] = event.is_bad() ? "WARNING" : "INFO";
  object["message"] = event.text();
  object["run_id"] = run_id;
  if (event.round() > 0) object["round"] = event.round();
  if (event.has_node_rank()) object["node_rank"] = event.node_rank();
  if (!event.host().empty()) object["host"] = event.host();
  if (event.has_rank()) object["rank"] = event.rank();
  if (event.has_recovery()) object["recovery"] = RecoveryObject(event.recovery());
  if (event.has_exit_code()) object["exit_code"] = event.exit_code();
  if (event.number() == 0) return object.dump(-1, ' ', /*ensure_ascii=*/false, Json::error_handler_t::replace);
  object["coordinator"] = absl::StrCat(event.epoch().number(), ".", absl::Hex(event.epoch().random()));
  object["number"] = event.number();
  return object.dump(-1, ' ', /*ensure_ascii=*/false, Json::error_handler_t::replace);
}

}  // namespace muster::rendezvous
