// What is left out of messages because the receiver holds it.
#include "base/crypto/held.h"

#include <gtest/gtest.h>

namespace muster {
namespace {

TEST(Held, TheTextsThatAreLeftOutAreAllPutBack) {
  v1::Failure full;
  full.set_exit_code(7);
  full.set_error_text("error");
  full.set_callstack("callstack");
  full.set_last_output("output");
  full.set_hint("hint");
  full.add_others()->set_rank(3);
  full.set_more_others(5);
  v1::Failure brief = full;
  LeaveOutTexts(&brief);
  v1::Failure expected;
  expected.set_exit_code(7);
  expected.set_texts_left_out(true);
  EXPECT_EQ(brief.SerializeAsString(), expected.SerializeAsString());
  v1::Failure held = full;
  MoveTexts(&held, &brief);
  EXPECT_EQ(brief.SerializeAsString(), full.SerializeAsString());
}

}  // namespace
}  // namespace muster
