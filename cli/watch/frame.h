// Rows of styled text as what a terminal is sent, and a keyboard's bytes as keys. Pure. Plain ANSI sequences:
// images with nothing but a static program have no terminfo files.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace muster::cli {

// With colour; without, only kStrong and kChosen show.
enum class Style { kPlain, kStrong, kGood, kOdd, kBad, kFaint, kChosen };

struct Span {
  std::string text;  // without control characters
  Style style = Style::kPlain;
};
using Row = std::vector<Span>;

struct Size {
  int columns = 80;
  int lines = 24;
};

// Draws over what is there, from the upper left corner; rows and lines beyond the size are left out.
std::string Frame(const std::vector<Row>& rows, Size size, bool colour);

enum class Key {
  kOther,
  kUp,
  kDown,
  kLeft,
  kRight,
  kPageUp,
  kPageDown,
  kEnter,
  kEscape,
  kBackspace,
  kText,
  kQuit
};

struct KeyPress {
  Key key = Key::kOther;
  char text = 0;  // of kText: a printable character
};

// What was typed. Ctrl-C, Ctrl-D are kQuit. A sequence that is not known is one kOther.
std::vector<KeyPress> KeysIn(std::string_view bytes);

}  // namespace muster::cli
