// The format is HOST_ID,PID,START,PLACE,RUN_ID. The run id comes last, since it may contain any character.
#include "base/proc/marker.h"

#include <charconv>

namespace muster {
namespace {

constexpr char kSeparator = ',';

// Takes the text up to the next separator; nullopt: there is none.
std::optional<std::string_view> TakeField(std::string_view* rest) {
  const size_t end = rest->find(kSeparator);
  if (end == std::string_view::npos) return std::nullopt;
  const std::string_view field = rest->substr(0, end);
  rest->remove_prefix(end + 1);
  return field;
}

template <typename Number>
bool ToNumber(std::string_view text, Number* number) {
  const auto result = std::from_chars(text.data(), text.data() + text.size(), *number);
  return result.ec == std::errc() && result.ptr == text.data() + text.size() && *number > 0;
}

}  // namespace

std::string MakePlace(std::string_view boot_id, std::string_view pid_namespace, std::string_view time_namespace) {
  if (boot_id.empty() || pid_namespace.empty()) return "";
  std::string place(boot_id);
  place.append("/")
      .append(pid_namespace)
      .append("/")
      .append(time_namespace);  // empty on kernels without time namespaces
  return place;
}

std::string FormatMarker(const Marker& marker) {
  return marker.host_id + kSeparator + std::to_string(marker.pid) + kSeparator + std::to_string(marker.start) +
         kSeparator + marker.place + kSeparator + marker.run_id;
}

std::optional<Marker> ParseMarker(std::string_view text) {
  Marker marker;
  const auto host_id = TakeField(&text);
  const auto pid = TakeField(&text);
  const auto start = TakeField(&text);
  const auto place = TakeField(&text);
  if (!place || host_id->empty()) return std::nullopt;
  if (!ToNumber(*pid, &marker.pid) || !ToNumber(*start, &marker.start)) return std::nullopt;
  marker.host_id = *host_id;
  marker.place = *place;
  marker.run_id = text;
  return marker;
}

std::string_view HostIdOf(std::string_view text) { return text.substr(0, text.find(kSeparator)); }

bool MayInherit(const Marker& own, const Marker& found) {
  return found.host_id != own.host_id && !own.place.empty() && found.place == own.place &&
         found.run_id == own.run_id;
}

}  // namespace muster
