// The rows at the bottom of a terminal that redraw themselves, such as the progress bars of each rank; complete
// lines are printed above them. Pure: text in, text with cursor movements out.
#pragma once

#include <map>
#include <string>
#include <string_view>

namespace muster {

class LiveRows {
 public:
  // pieces: output of a LineAssembler, each ending with "\n" or "\r"; a state may have several rows. Appends
  // complete lines to `out`, to be written now; rows appear with the next Draw(). A complete line of a source
  // replaces that source's rows.
  void Take(int source, std::string_view pieces, std::string* out);

  // Appends the current rows to `out`, cut to the terminal's size. Appends nothing if nothing has changed.
  void Draw(int columns, int lines, std::string* out);

  bool stale() const { return stale_; }

 private:
  void Erase(std::string* out);

  std::map<int, std::string> rows_;  // by source; kRowBreak separates several rows
  int drawn_ = 0;                    // rows on the screen; the cursor is at the start of the last one
  bool stale_ = false;               // the rows on the screen are out of date
};

}  // namespace muster
