#include "cli/plan/local_output.h"

#include <iterator>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/console/line_assembler.h"
#include "base/core/status_macros.h"
#include "cli/plan/line_prefix.h"
#include "cli/plan/local_plan.h"

namespace muster::cli {
namespace {

constexpr const char* kColours[] = {"\033[36m", "\033[33m", "\033[32m", "\033[35m", "\033[34m", "\033[96m"};
constexpr const char kPlain[] = "\033[0m";

// Removes the rank from the front of a piece and returns it; empty: no worker wrote the piece.
std::string_view TakeRank(std::string_view* piece) {
  if (piece->empty() || piece->front() != kRankBegin) return {};
  const size_t end = piece->find(kRankEnd);
  if (end == std::string_view::npos) return {};
  const std::string_view rank = piece->substr(1, end - 1);
  piece->remove_prefix(end + 1);
  return rank;
}

}  // namespace

void NodeOutput::Feed(std::string_view bytes, const Take& take) {
  pending_.append(bytes);
  size_t begin = 0;
  while (true) {
    const size_t end = pending_.find_first_of("\n\r", begin);
    if (end == std::string::npos) break;
    const bool pair = pending_[end] == '\r' && end + 1 < pending_.size() && pending_[end + 1] == '\n';
    const size_t next = end + (pair ? 2 : 1);
    Show(std::string_view(pending_).substr(begin, next - begin), take);
    begin = next;
  }
  pending_.erase(0, begin);
  if (pending_.size() > kMaxLocalLineBytes) End(take);
}

void NodeOutput::End(const Take& take) {
  if (pending_.empty()) return;
  pending_.push_back('\n');
  Show(pending_, take);
  pending_.clear();
}

void NodeOutput::Show(std::string_view piece, const Take& take) {
  if (piece == "\n" && !state_.empty()) {
    state_.back() = '\n';
    take(rank_, prefix_bytes_, std::exchange(state_, ""));
    return;
  }
  std::string shown;
  const bool state = piece.ends_with('\r');
  do {  // a redrawn state may consist of several rows
    const size_t end = state ? piece.find(kRowBreak) : std::string_view::npos;
    std::string_view row = piece.substr(0, end == std::string_view::npos ? end : end + 1);
    piece.remove_prefix(row.size());
    rank_ = TakeRank(&row);
    prefix_bytes_ = 0;
    if (rank_.empty() && row.starts_with(kBareLine)) {
      shown += row.substr(1);
      continue;
    }
    if (colour_) shown += kColours[static_cast<size_t>(node_) % std::size(kColours)];
    absl::StrAppend(&shown, "[node ", node_);
    if (!rank_.empty()) absl::StrAppend(&shown, " rank ", rank_);
    shown += "]";
    if (colour_) shown += kPlain;
    shown += " ";
    prefix_bytes_ = shown.size();  // a state of several rows is not compared
    shown += row;
  } while (!piece.empty());
  state_ = shown.back() == '\r' ? shown : "";
  take(rank_, prefix_bytes_, shown);
}

}  // namespace muster::cli
