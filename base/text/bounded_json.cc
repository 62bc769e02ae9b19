#include "base/text/bounded_json.h"

#include <set>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/core/status_macros.h"
#include "base/text/problem.h"
#include "nlohmann/json.hpp"

namespace muster {
namespace {

using Json = nlohmann::json;

// Walks a document and stores the reason for refusing it. The library calls these methods by name.
class BoundsCheck : public Json::json_sax_t {
 public:
  BoundsCheck(std::string_view text, int max_depth) : text_(text), max_depth_(max_depth) {}

  const std::string& refusal() const { return refusal_; }

  bool null() override { return true; }
  bool boolean(bool) override { return true; }
  bool number_integer(number_integer_t) override { return true; }
  bool number_unsigned(number_unsigned_t) override { return true; }
  bool number_float(number_float_t, const string_t&) override { return true; }
  bool string(string_t&) override { return true; }
  bool binary(binary_t&) override { return true; }
  bool start_object(std::size_t) override { return Enter(); }
  bool start_array(std::size_t) override { return Enter(); }
  bool end_object() override { return Leave(); }
  bool end_array() override { return Leave(); }

  bool key(string_t& name) override {
    if (keys_.back().insert(name).second) return true;
    refusal_ = absl::StrCat("an object that has the member ", Shown(name), " twice");
    return false;
  }

  bool parse_error(std::size_t position, const std::string& token, const Json::exception& error) override {
    constexpr int kNumberOverflow = 406;  // the library's error number
    if (error.id == kNumberOverflow) {
      refusal_ = absl::StrCat("a number that is too large, ", Shown(token));
      return false;
    }
    // The library's position includes the offending byte and counts from 1.
    const std::size_t at = std::min(position > 0 ? position - 1 : 0, text_.size());
    if (at == text_.size()) {
      refusal_ = absl::StrFormat("not JSON: it ends too early, after %d bytes", text_.size());
    } else {
      constexpr std::size_t kNearChars = 24;
      refusal_ = absl::StrFormat("not JSON at byte %d, near %s", at, Shown(text_.substr(at, kNearChars)));
    }
    return false;
  }

 private:
  bool Enter() {
    keys_.emplace_back();
    if (static_cast<int>(keys_.size()) <= max_depth_) return true;
    refusal_ = absl::StrFormat("nested more than %d deep", max_depth_);
    return false;
  }

  bool Leave() {
    keys_.pop_back();
    return true;
  }

  const std::string_view text_;
  const int max_depth_;
  std::vector<std::set<std::string>> keys_;  // one set for each object or array that is open
  std::string refusal_;
};

}  // namespace

absl::StatusOr<Json> ParseBoundedJson(std::string_view text, const JsonLimits& limits) {
  if (text.size() > limits.max_bytes) {
    return absl::InvalidArgumentError(
        absl::StrFormat("%d bytes long, over the limit of %d", text.size(), limits.max_bytes));
  }
  BoundsCheck check(text, limits.max_depth);
  // The library takes a NUL for the end of the text and ignores what follows.
  if (const size_t nul = text.find('\0'); nul != std::string_view::npos) {
    return absl::InvalidArgumentError(absl::StrFormat("not JSON at byte %d, which is 0", nul));
  }
  if (!Json::sax_parse(text, &check)) return absl::InvalidArgumentError(check.refusal());
  Json parsed = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (parsed.is_discarded()) return absl::InvalidArgumentError("not JSON");
  return parsed;
}

}  // namespace muster
