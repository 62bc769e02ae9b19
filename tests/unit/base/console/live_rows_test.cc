// The rows at the bottom of a terminal that redraw themselves.
#include "base/console/live_rows.h"

#include <gtest/gtest.h>

namespace muster {
namespace {

TEST(LiveRowsTest, EachSourceHasARowAndLinesGoAbove) {
  LiveRows rows;
  std::string out;
  rows.Take(1, "a 10%\r", &out);
  rows.Take(2, "b 10%\r", &out);
  EXPECT_EQ(out, "");
  rows.Draw(80, 24, &out);
  EXPECT_EQ(out, "a 10%\r\nb 10%\r");
  out.clear();
  rows.Draw(80, 24, &out);
  EXPECT_EQ(out, "");
  rows.Take(3, "a line\n", &out);
  EXPECT_EQ(out, "\033[1A\r\033[Ja line\n");
  out.clear();
  rows.Take(1, "a 20%\ra 100%\n", &out);
  EXPECT_EQ(out, "a 100%\r\n");
  out.clear();
  rows.Draw(80, 24, &out);
  EXPECT_EQ(out, "b 10%\r");
}

TEST(LiveRowsTest, AStateOfSeveralRowsHasThemBelowEachOther) {
  LiveRows rows;
  std::string out;
  rows.Take(1, "a\vb\r", &out);
  rows.Take(2, "c\r", &out);
  rows.Draw(80, 24, &out);
  EXPECT_EQ(out, "a\r\nb\r\nc\r");
  out.clear();
  rows.Take(1, "a\r", &out);
  rows.Draw(80, 24, &out);
  EXPECT_EQ(out, "\033[2A\r\033[Ja\r\nc\r");
  rows.Take(1, "a\vb\vc\vd\r", &out);
  out.clear();
  rows.Draw(80, 4, &out);
  EXPECT_EQ(out, "\033[1A\r\033[Ja\r\nb\r\nc\r");
}

TEST(LiveRowsTest, ColoursTakeNoColumnsAndEndWithTheRow) {
  LiveRows rows;
  std::string out;
  rows.Take(1, "\033[31mred\033[0m and more\r", &out);
  rows.Draw(8, 10, &out);
  EXPECT_EQ(out, "\033[31mred\033[0m and\033[0m\r");
}

TEST(LiveRowsTest, RowsAreCutToTheTerminal) {
  LiveRows rows;
  std::string out;
  rows.Take(1, "\xe2\x96\x88\xe2\x96\x88\xe2\x96\x88\r", &out);
  for (int source = 2; source < 9; ++source) rows.Take(source, "12345\r", &out);
  rows.Draw(3, 4, &out);
  EXPECT_EQ(out, "\xe2\x96\x88\xe2\x96\x88\r\n12\r\n12\r");
}

}  // namespace
}  // namespace muster
