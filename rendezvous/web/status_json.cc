#include "rendezvous/web/status_json.h"

#include <utility>

#include "base/wire/time_spent.h"
#include "nlohmann/json.hpp"
#include "rendezvous/web/view_words.h"

namespace muster::rendezvous {
namespace {

using Json = nlohmann::ordered_json;
using View = v1::JobView;
using Node = v1::NodeView;

Json NodeObject(const Node& node, absl::Time now) {
  Json object;
  object["host"] = node.hostname();
  object["host_id"] = node.host_id();
  object["part"] = KeyOf(Node::Part_Name(node.part()), "PART_");
  object["phase"] = PhaseOf(node.phase());
  object["node_rank"] = node.has_node_rank() ? Json(node.node_rank()) : Json();
  object["place"] = node.has_place() ? Json(node.place()) : Json();
  object["first_rank"] = node.has_node_rank() ? Json(node.first_rank()) : Json();
  object["workers"] = node.workers();
  object["live_workers"] = node.live_workers();
  object["connected"] = node.connected();
  object["heard"] = Rfc3339(now - absl::Milliseconds(node.heard_ms()));
  object["sign_of_life"] = node.has_quiet_ms() ? Json(Rfc3339(now - absl::Milliseconds(node.quiet_ms()))) : Json();
  object["step"] = node.step() > 0 ? Json(node.step()) : Json();
  object["set_aside_until"] =
      node.set_aside_ms() > 0 ? Json(Rfc3339(now + absl::Milliseconds(node.set_aside_ms()))) : Json();
  object["restarts_caused"] = node.restarts_caused();
  object["odd"] = node.is_odd();
  object["trouble"] = node.trouble().empty() ? Json() : Json(node.trouble());
  object["version"] = node.version();
  return object;
}

Json RoundObject(const View& view, absl::Time now) {
  if (!view.has_round()) return {};
  const v1::RoundView& round = view.round();
  Json object;
  object["number"] = round.number();
  object["started"] = round.has_age_ms() ? Json(Rfc3339(now - absl::Milliseconds(round.age_ms()))) : Json();
  object["node_count"] = round.node_count();
  object["world_size"] = round.world_size();
  object["restart_count"] = round.restart_count();
  object["master"] = round.master();
  return object;
}

Json ProgressObject(const View& view, absl::Time now) {
  const v1::Progress& progress = view.progress();
  if (!progress.watched() && !progress.has_progress_file_ms()) return {};
  const auto known = [](int64_t number) { return number > 0 ? Json(number) : Json(); };
  const auto pace = [](int64_t rate) { return rate > 0 ? Json(PerMinute(rate)) : Json(); };
  Json object;
  object["ranks"] = progress.ranks();
  object["median_step"] = known(progress.median_step());
  object["slowest_step"] = known(progress.slowest_step());
  object["slowest_rank"] = progress.slowest_step() > 0 ? Json(progress.slowest_rank()) : Json();
  object["counts"] = progress.by_touches() ? "heartbeats" : "steps";
  object["per_minute"] = pace(progress.rate());
  object["per_minute_before"] = pace(progress.hour_rate());
  object["before_s"] = Seconds(progress.hour_ms());
  object["sign_of_life"] =
      progress.has_quiet_ms() ? Json(Rfc3339(now - absl::Milliseconds(progress.quiet_ms()))) : Json();
  object["progress_file"] = progress.has_progress_file_ms()
                                ? Json(Rfc3339(now - absl::Milliseconds(progress.progress_file_ms())))
                                : Json();
  return object;
}

Json EndedObjects(const View& view, absl::Time now) {
  Json list = Json::array();
  for (const v1::EndedRound& round : view.ended()) {
    list.push_back({{"round", round.number()},
                    {"kind", KeyOf(v1::EndedRound::Kind_Name(round.kind()), "KIND_")},
                    {"cause", round.cause()},
                    {"trouble", Rfc3339(now - absl::Milliseconds(round.age_ms()))},
                    {"ran_s", round.has_ran_ms() ? Json(Seconds(round.ran_ms())) : Json()},
                    {"lost_s", Seconds(round.lost_ms())},
                    {"detecting_s", Seconds(round.detecting_ms())},
                    {"draining_s", Seconds(round.draining_ms())},
                    {"gathering_s", Seconds(round.gathering_ms())},
                    {"starting_s", round.has_starting_ms() ? Json(Seconds(round.starting_ms())) : Json()}});
  }
  return list;
}

Json TextsOf(const google::protobuf::RepeatedPtrField<std::string>& texts) {
  Json list = Json::array();
  for (const std::string& text : texts) list.push_back(text);
  return list;
}

}  // namespace

std::string StatusJson(const View& view, absl::Time now) {
  Json object;
  object["run_id"] = view.run_id();
  object["well"] = IsWell(view);
  object["state"] = KeyOf(View::State_Name(view.state()), "STATE_");
  object["since"] = Rfc3339(now - absl::Milliseconds(view.state_ms()));
  object["reason"] = view.reason().empty() ? Json() : Json(view.reason());
  object["odd"] = TextsOf(view.odd());
  object["round"] = RoundObject(view, now);
  object["progress"] = ProgressObject(view, now);
  object["min_nodes"] = view.min_nodes();
  object["max_nodes"] = view.max_nodes();
  Json nodes = Json::array();
  for (const Node& node : view.nodes()) nodes.push_back(NodeObject(node, now));
  object["nodes"] = std::move(nodes);
  object["missing"] = TextsOf(view.missing());
  object["left"] = {{"max_restarts", view.left().max_restarts()},
                    {"restarts", view.left().restarts()},
                    {"max_node_losses", view.left().max_node_losses()},
                    {"node_losses", view.left().node_losses()}};
  object["ended"] = EndedObjects(view, now);
  object["ended_before"] = view.ended_before();
  object["lost_s"] = Seconds(view.lost_ms());
  object["time"] = TimeObject(view.time());
  object["exit_code"] = view.has_exit_code() ? Json(view.exit_code()) : Json();
  object["coordinator"] = view.coordinator().empty() ? Json() : Json(view.coordinator());
  object["coordinator_since"] = Rfc3339(now - absl::Milliseconds(view.coordinator_ms()));
  return object.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

std::string EndJson(const v1::JobEnd& end) {
  const Json object = {{"state", "ended"}, {"exit_code", end.exit_code()}, {"reason", end.reason()}};
  return object.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace muster::rendezvous
