// What `muster status --watch` shows: whether the job is well, what is odd, and a cell or a line for each node.
// Pure.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "cli/watch/frame.h"
#include "muster/v1/control.pb.h"

namespace muster::cli {

class WatchScreen {
 public:
  enum class Wish { kNothing, kStacks, kQuit };

  void Show(const v1::JobView& view);
  void ShowProblem(const std::string& why) { problem_ = why; }  // until the next answer
  void ShowStacks(const std::string& text);
  void ShowEnd(const v1::JobEnd& end);  // the job has ended: what is shown stays as it is
  Wish OnKey(const KeyPress& press, Size size);

  // old: the age of the newest answer.
  std::vector<Row> Rows(Size size, absl::Duration old) const;

 private:
  enum class Pane { kNodes, kStacks, kRounds };

  std::vector<const v1::NodeView*> Nodes() const;  // those that the filter lets through
  std::vector<std::string> Lines() const;          // of a pane of text
  std::vector<Row> Top(Size size, absl::Duration old) const;
  std::vector<Row> Middle(Size size, size_t room) const;
  std::vector<Row> Bottom() const;
  void Move(const KeyPress& press, Size size);
  void OnLetter(char letter);
  void OnFilterKey(const KeyPress& press);

  v1::JobView view_;
  bool has_view_ = false;
  std::string problem_;
  std::optional<v1::JobEnd> end_;
  Pane pane_ = Pane::kNodes;
  std::string stacks_;
  std::string filter_;
  bool types_filter_ = false;
  size_t chosen_ = 0;  // among Nodes()
  size_t scroll_ = 0;  // lines of a pane of text above the first that is shown
};

}  // namespace muster::cli
