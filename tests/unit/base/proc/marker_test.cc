// The marker as text, and which processes a host may take over from an earlier host of its run.
#include "base/proc/marker.h"

#include <gtest/gtest.h>

namespace muster::host {
namespace {

Marker Sample() {
  return {.host_id = "h1", .pid = 71, .start = 4711, .place = "boot/pid:[4]/time:[5]", .run_id = "run"};
}

TEST(MarkerTest, AMarkerRoundTrips) {
  for (const char* run_id : {"run", "", "a,b,,c", "with blanks\n"}) {
    Marker marker = Sample();
    marker.run_id = run_id;
    const auto read = ParseMarker(FormatMarker(marker));
    ASSERT_TRUE(read.has_value()) << run_id;
    EXPECT_EQ(read->host_id, "h1");
    EXPECT_EQ(read->pid, 71);
    EXPECT_EQ(read->start, 4711u);
    EXPECT_EQ(read->place, marker.place);
    EXPECT_EQ(read->run_id, run_id);
  }
}

TEST(MarkerTest, InvalidMarkersAreRefused) {
  for (const char* text :
       {"", "h1", "h1,71,4711,place", ",71,4711,place,run", "h1,x,4711,place,run", "h1,71,,place,run",
        "h1,0,4711,place,run", "h1,-5,4711,place,run", "h1,71,4711x,place,run"}) {
    EXPECT_FALSE(ParseMarker(text).has_value()) << text;
  }
}

TEST(MarkerTest, TheHostIdIsWhatComesFirst) {
  EXPECT_EQ(HostIdOf(FormatMarker(Sample())), "h1");
  EXPECT_EQ(HostIdOf("h1"), "h1");
}

TEST(MarkerTest, OnlyAnotherHostOfTheSameRunAndPlaceIsInherited) {
  Marker own = Sample();
  own.host_id = "h2";
  EXPECT_TRUE(MayInherit(own, Sample()));
  EXPECT_FALSE(MayInherit(Sample(), Sample()));  // our own
  for (std::string Marker::*field : {&Marker::place, &Marker::run_id}) {
    Marker other = Sample();
    other.*field += "x";
    EXPECT_FALSE(MayInherit(own, other));
  }
}

TEST(MarkerTest, AnUnknownPlaceEqualsNoOther) {
  EXPECT_EQ(MakePlace("", "pid:[4]", "time:[5]"), "");
  EXPECT_EQ(MakePlace("boot", "", "time:[5]"), "");
  Marker own = Sample(), other = Sample();
  own.host_id = "h2";
  own.place = other.place = "";
  EXPECT_FALSE(MayInherit(own, other));
}

TEST(MarkerTest, EachOfBootAndNamespacesMakesAnotherPlace) {
  const std::string place = MakePlace("boot", "pid:[4]", "time:[5]");
  EXPECT_NE(place, MakePlace("boot2", "pid:[4]", "time:[5]"));
  EXPECT_NE(place, MakePlace("boot", "pid:[42]", "time:[5]"));
  EXPECT_NE(place, MakePlace("boot", "pid:[4]", "time:[52]"));
}

}  // namespace
}  // namespace muster::host
