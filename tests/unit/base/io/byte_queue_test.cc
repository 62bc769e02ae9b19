// First in, first out, however the bytes are cut.
#include "base/io/byte_queue.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>

namespace muster {
namespace {

TEST(ByteQueueTest, BytesArePoppedInOrder) {
  EXPECT_TRUE(rc::check([](const std::vector<std::string>& pushed) {
    ByteQueue queue;
    std::string all, popped;
    for (const std::string& bytes : pushed) {
      queue.Push(bytes);
      all += bytes;
      const size_t count = *rc::gen::inRange<size_t>(0, queue.size() + 1);
      popped += queue.front(count);
      queue.Pop(count);
    }
    popped += queue.front(queue.size());
    RC_ASSERT(popped == all);
  }));
}

}  // namespace
}  // namespace muster
