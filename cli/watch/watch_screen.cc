#include "cli/watch/watch_screen.h"

#include <algorithm>
#include <map>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "base/text/text.h"
#include "cli/status/status_text.h"

namespace muster::cli {
namespace {

using View = v1::JobView;
using Node = v1::NodeView;

constexpr absl::Duration kOld = absl::Seconds(5);  // a row names the age of an answer from then on
constexpr int kLinesForOneOdd = 6;                 // of the terminal, for each line about what is odd
constexpr size_t kBottomRows = 3;
constexpr size_t kLabelColumns = 7;  // in front of a row of cells
constexpr size_t kPage = 10;         // lines of text, or rows of cells

// A node in one letter: small ones are as they should be.
struct Cell {
  char letter;
  const char* word;
  Style style;
};

Cell CellOfMember(const Node& node) {
  switch (node.phase()) {
    case v1::PHASE_READY:
      return {'t', "told to run", Style::kPlain};
    case v1::PHASE_STARTING:
      return {'s', "starts", Style::kPlain};
    case v1::PHASE_RUNNING:
      return {'r', "runs", Style::kGood};
    case v1::PHASE_STOPPING:
      return {'e', "ends its workers", Style::kPlain};
    case v1::PHASE_SUCCEEDED:
      return {'d', "done", Style::kGood};
    case v1::PHASE_FAILED:
      return {'F', "a worker failed", Style::kBad};
    case v1::PHASE_UNUSABLE:
      return {'U', "unusable", Style::kBad};
    case v1::PHASE_LEAVING:
      return {'V', "leaves", Style::kOdd};
    case v1::PHASE_HOST_GONE:
      return {'G', "gone", Style::kBad};
    default:
      return {'?', "not known", Style::kOdd};
  }
}

Cell CellOf(const Node& node) {
  if (!node.connected()) return {'C', "no connection", Style::kBad};
  switch (node.part()) {
    case Node::PART_READY:
      return {'w', "waits for a round", Style::kPlain};
    case Node::PART_SPARE:
      return {'p', "spare", Style::kFaint};
    case Node::PART_ARRIVING:
      return {'a', "not ready yet", Style::kPlain};
    case Node::PART_STANDBY:
      return {'y', "stands by", Style::kFaint};
    case Node::PART_SET_ASIDE:
      return {'X', "set aside", Style::kOdd};
    case Node::PART_OBSERVER:
      return {'o', "observes", Style::kFaint};
    default:
      break;
  }
  const Cell cell = CellOfMember(node);
  const bool is_late = node.is_odd() && node.trouble().empty() && absl::ascii_islower(cell.letter);
  return is_late ? Cell{'L', "late", Style::kBad} : cell;
}

bool IsOdd(const Node& node) { return absl::ascii_isupper(CellOf(node).letter) || node.is_odd(); }

size_t CellsInRow(Size size) { return std::max<size_t>(10, static_cast<size_t>(size.columns) - kLabelColumns); }

std::string LabelOf(const Node& node) {
  return absl::StrFormat("%5s  ", node.has_node_rank() ? absl::StrCat(node.node_rank()) : "-");
}

// The first of `count` rows to show, so that row `chosen` is among the `room` that are.
size_t FirstRow(size_t chosen, size_t count, size_t room) {
  if (count <= room) return 0;
  return std::min(chosen < room / 2 ? 0 : chosen - room / 2, count - room);
}

std::vector<Row> TableOf(const std::vector<const Node*>& nodes, size_t chosen, size_t widest) {
  std::vector<Row> rows;
  for (size_t i = 0; i < nodes.size(); ++i) {
    const Cell cell = CellOf(*nodes[i]);
    const Style style = i == chosen ? Style::kChosen : IsOdd(*nodes[i]) ? cell.style : Style::kPlain;
    rows.push_back({{std::string(1, cell.letter), cell.style}, {" "}, {NodeLine(*nodes[i], widest), style}});
  }
  return rows;
}

std::vector<Row> GridOf(const std::vector<const Node*>& nodes, size_t chosen, size_t in_row, size_t room) {
  std::vector<Row> rows;
  const size_t count = (nodes.size() + in_row - 1) / in_row;
  const size_t first = FirstRow(chosen / in_row, count, room);
  for (size_t row = first; row < std::min(count, first + room); ++row) {
    Row& cells = rows.emplace_back();
    cells.push_back({LabelOf(*nodes[row * in_row]), Style::kFaint});
    for (size_t i = row * in_row; i < std::min(nodes.size(), (row + 1) * in_row); ++i) {
      const Cell cell = CellOf(*nodes[i]);
      cells.push_back({std::string(1, cell.letter), i == chosen ? Style::kChosen : cell.style});
    }
  }
  return rows;
}

// What the letters mean, of those that are there.
Row LegendOf(const std::vector<const Node*>& nodes) {
  std::map<char, std::pair<Cell, int>> seen;
  for (const Node* const node : nodes) {
    const Cell cell = CellOf(*node);
    ++seen.try_emplace(cell.letter, cell, 0).first->second.second;
  }
  Row legend;
  for (const auto& [letter, cell] : seen) {
    legend.push_back({std::string(1, letter), cell.first.style});
    legend.push_back({absl::StrCat(" ", cell.first.word, ": ", cell.second, "   ")});
  }
  return legend;
}

}  // namespace

void WatchScreen::Show(const v1::JobView& view) {
  view_ = view;
  has_view_ = true;
  problem_.clear();
}

void WatchScreen::ShowEnd(const v1::JobEnd& end) {
  end_ = end;
  problem_.clear();
}

void WatchScreen::ShowStacks(const std::string& text) { stacks_ = text; }

std::vector<const v1::NodeView*> WatchScreen::Nodes() const {
  std::vector<const Node*> nodes;
  for (const Node& node : view_.nodes()) {
    const bool has_rank = node.has_node_rank() && absl::StrCat(node.node_rank()) == filter_;
    if (filter_.empty() || has_rank || absl::StrContains(node.hostname(), filter_)) nodes.push_back(&node);
  }
  return nodes;
}

// ---- keys ---------------------------------------------------------------------------------------------------

WatchScreen::Wish WatchScreen::OnKey(const KeyPress& press, Size size) {
  if (press.key == Key::kQuit) return Wish::kQuit;
  if (types_filter_) {
    OnFilterKey(press);
    return Wish::kNothing;
  }
  if (press.key == Key::kEscape) {
    filter_.clear();
    pane_ = Pane::kNodes;
    return Wish::kNothing;
  }
  if (press.key != Key::kText) {
    Move(press, size);
    return Wish::kNothing;
  }
  if (press.text == 'q') return Wish::kQuit;
  OnLetter(press.text);
  if (press.text != 's') return Wish::kNothing;
  stacks_ = "asking all nodes where their workers stand, for at most 9 s ...";
  return Wish::kStacks;
}

void WatchScreen::OnFilterKey(const KeyPress& press) {
  chosen_ = 0;
  if (press.key == Key::kText) {
    filter_ += press.text;
  } else if (press.key == Key::kBackspace && !filter_.empty()) {
    filter_.pop_back();
  } else if (press.key == Key::kEnter || press.key == Key::kEscape) {
    types_filter_ = false;
    if (press.key == Key::kEscape) filter_.clear();
  }
}

void WatchScreen::OnLetter(char letter) {
  scroll_ = 0;
  const auto show = [this](Pane pane) { pane_ = pane_ == pane ? Pane::kNodes : pane; };
  if (letter == 's') pane_ = Pane::kStacks;
  if (letter == 'l') show(Pane::kRounds);
  if (letter == '/') {
    pane_ = Pane::kNodes;
    types_filter_ = true;
    filter_.clear();
  }
  if (letter != 'n') return;
  pane_ = Pane::kNodes;
  const std::vector<const Node*> nodes = Nodes();
  for (size_t i = 1; i <= nodes.size(); ++i) {
    const size_t next = (chosen_ + i) % nodes.size();
    if (!IsOdd(*nodes[next])) continue;
    chosen_ = next;
    return;
  }
}

void WatchScreen::Move(const KeyPress& press, Size size) {
  const bool is_text = pane_ != Pane::kNodes;
  const size_t count = is_text ? Lines().size() : Nodes().size();
  const bool is_table = Nodes().size() + Top(size, {}).size() + kBottomRows <= static_cast<size_t>(size.lines);
  const auto row = static_cast<std::ptrdiff_t>(is_text || is_table ? 1 : CellsInRow(size));
  std::ptrdiff_t by = 0;
  if (press.key == Key::kUp) by = -row;
  if (press.key == Key::kDown) by = row;
  if (press.key == Key::kLeft) by = -1;
  if (press.key == Key::kRight) by = 1;
  if (press.key == Key::kPageUp) by = -row * static_cast<std::ptrdiff_t>(kPage);
  if (press.key == Key::kPageDown) by = row * static_cast<std::ptrdiff_t>(kPage);
  size_t& at = is_text ? scroll_ : chosen_;
  const auto last = std::max<std::ptrdiff_t>(0, static_cast<std::ptrdiff_t>(count) - 1);
  at = static_cast<size_t>(std::clamp<std::ptrdiff_t>(static_cast<std::ptrdiff_t>(at) + by, 0, last));
}

// ---- rows ---------------------------------------------------------------------------------------------------

std::vector<Row> WatchScreen::Rows(Size size, absl::Duration old) const {
  std::vector<Row> rows = Top(size, old);
  if (has_view_) {
    const auto lines = static_cast<size_t>(std::max(0, size.lines));
    const size_t taken = rows.size() + kBottomRows;
    const size_t room = lines > taken ? lines - taken : 1;
    for (Row& row : Middle(size, room)) rows.push_back(std::move(row));
    while (rows.size() + kBottomRows < lines) rows.emplace_back();
  }
  for (Row& row : Bottom()) rows.push_back(std::move(row));
  return rows;
}

std::vector<Row> WatchScreen::Top(Size size, absl::Duration old) const {
  std::vector<Row> rows;
  if (end_) {
    std::string text = EndText(*end_);
    absl::StripTrailingAsciiWhitespace(&text);
    rows.push_back({{text, Style::kStrong}});
    rows.push_back({{"the last that it said:", Style::kFaint}});
  } else if (has_view_) {
    const bool is_well = CodeOf(view_) == 0;
    rows.push_back({{is_well ? "well: " : "ATTENTION: ", is_well ? Style::kGood : Style::kBad},
                    {Headline(view_), Style::kStrong}});
  }
  if (!end_ && (!problem_.empty() || (has_view_ && old >= kOld))) {
    rows.push_back(
        {{absl::StrCat("  ! ",
                       has_view_
                           ? absl::StrCat("this is ", absl::FormatDuration(absl::Trunc(old, absl::Seconds(1))),
                                          " old", problem_.empty() ? "" : ": ")
                           : "",
                       OneLine(problem_)),
          Style::kBad}});
  }
  if (!has_view_) {
    if (rows.empty()) rows.push_back({{"asking the job ..."}});
    return rows;
  }
  if (view_.state() == View::STATE_RUNNING && view_.has_progress())
    rows.push_back({{absl::StrCat("progress   ", ProgressLine(view_))}});
  if (view_.missing_size() > 0)
    rows.push_back({{absl::StrCat("missing    ", OneLine(absl::StrJoin(view_.missing(), ", "))), Style::kOdd}});
  const int most = std::max(1, size.lines / kLinesForOneOdd);
  for (int i = 0; i < std::min(most, view_.odd_size()); ++i)
    rows.push_back({{absl::StrCat("  ! ", OneLine(view_.odd(i))), Style::kOdd}});
  if (view_.odd_size() > most) rows.push_back({{absl::StrCat("  ! and ", view_.odd_size() - most, " more")}});
  return rows;
}

std::vector<std::string> WatchScreen::Lines() const {
  if (pane_ == Pane::kRounds) {
    std::vector<std::string> lines = {RestartsLine(view_)};
    for (std::string& round : EndedRounds(view_, view_.ended_size())) lines.push_back(std::move(round));
    return lines;
  }
  std::vector<std::string> lines;
  for (const absl::string_view line : absl::StrSplit(stacks_, '\n', absl::SkipEmpty())) lines.emplace_back(line);
  return lines;
}

std::vector<Row> WatchScreen::Middle(Size size, size_t room) const {
  if (pane_ == Pane::kNodes) {
    const std::vector<const Node*> nodes = Nodes();
    const size_t chosen = std::min(chosen_, nodes.empty() ? 0 : nodes.size() - 1);
    return nodes.size() <= room ? TableOf(nodes, chosen, WidestName(view_))
                                : GridOf(nodes, chosen, CellsInRow(size), room);
  }
  const std::vector<std::string> lines = Lines();
  std::vector<Row> rows;
  for (size_t i = std::min(scroll_, lines.size()); i < lines.size() && rows.size() < room; ++i)
    rows.push_back({{lines[i]}});
  return rows;
}

std::vector<Row> WatchScreen::Bottom() const {
  const std::vector<const Node*> nodes = Nodes();
  const Row none;
  std::vector<Row> rows;
  rows.push_back(pane_ == Pane::kNodes ? LegendOf(nodes) : none);
  rows.push_back(nodes.empty() || pane_ != Pane::kNodes
                     ? none
                     : Row{{NodeLine(*nodes[std::min(chosen_, nodes.size() - 1)], 0), Style::kStrong}});
  if (types_filter_ || !filter_.empty()) {
    rows.push_back(
        {{"nodes with "}, {filter_, Style::kStrong}, {types_filter_ ? "_" : "   Esc all nodes", Style::kFaint}});
  } else {
    rows.push_back(
        {{"arrows choose   n next odd   / filter   s stacks   l rounds   Esc back   q quit", Style::kFaint}});
  }
  return rows;
}

}  // namespace muster::cli
