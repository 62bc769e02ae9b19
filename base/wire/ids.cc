#include "base/wire/ids.h"

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace muster {
namespace {

template <typename T>
int CompareValues(const T& a, const T& b) {
  return a < b ? -1 : (b < a ? 1 : 0);
}

}  // namespace

int Compare(const v1::Epoch& a, const v1::Epoch& b) {
  if (int order = CompareValues(a.number(), b.number())) return order;
  return CompareValues(a.random(), b.random());
}

int Compare(const v1::DirectiveId& a, const v1::DirectiveId& b) {
  if (int order = Compare(a.epoch(), b.epoch())) return order;
  return CompareValues(a.seq(), b.seq());
}

int Compare(const v1::StatusId& a, const v1::StatusId& b) {
  if (int order = CompareValues(a.agent_number(), b.agent_number())) return order;
  return CompareValues(a.seq(), b.seq());
}

int Compare(const v1::RoundId& a, const v1::RoundId& b) {
  if (int order = CompareValues(a.number(), b.number())) return order;
  return Compare(a.epoch(), b.epoch());
}

std::string ToString(const v1::Epoch& epoch) {
  return absl::StrFormat("%d.%04x", epoch.number(), epoch.random() & 0xffff);
}

std::string ToString(const v1::RoundId& id) { return absl::StrCat(id.number(), "@", ToString(id.epoch())); }

std::string ToString(v1::Phase phase) {
  std::string name = v1::Phase_Name(phase);
  return absl::AsciiStrToLower(name.substr(name.find('_') + 1));
}

std::string ToString(const v1::Endpoint& endpoint) {
  const bool ipv6 = endpoint.host().find(':') != std::string::npos;
  return ipv6 ? absl::StrCat("[", endpoint.host(), "]:", endpoint.port())
              : absl::StrCat(endpoint.host(), ":", endpoint.port());
}

}  // namespace muster
