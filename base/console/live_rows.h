// The rows at the bottom of a terminal that redraw themselves, those of each source below each other (the progress
// bars of a rank); whole lines go above them. Pure: text in, text with cursor movements out.
#pragma once

#include <map>
#include <string>
#include <string_view>

namespace muster {

class LiveRows {
 public:
  // Pieces that end with "\n" or "\r", as a LineAssembler makes them; a state may be several rows. Appends to out
  // what is to be written now: whole lines. Rows appear with the next Draw. A whole line of a source takes its
  // rows' place.
  void Take(int source, std::string_view pieces, std::string* out);

  // The rows as they are, cut to what the terminal shows. Nothing if nothing has changed.
  void Draw(int columns, int lines, std::string* out);

  bool stale() const { return stale_; }

 private:
  void Erase(std::string* out);

  std::map<int, std::string> rows_;  // by source, with kRowBreak between several
  int drawn_ = 0;                    // rows on the screen; the cursor is at the start of the last
  bool stale_ = false;               // the screen shows other rows than there are
};

}  // namespace muster
