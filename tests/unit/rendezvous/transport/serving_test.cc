#include "rendezvous/transport/serving.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace muster::rendezvous {
namespace {

using ::testing::HasSubstr;

v1::NodeConfig JobOf(int32_t nodes) {
  v1::NodeConfig config;
  config.set_max_nodes(nodes);
  return config;
}

TEST(ServingTest, ACoordinatorWarnsOfTooFewDescriptorsForItsNodes) {
  EXPECT_EQ(WarningOfFewDescriptors(JobOf(298), 1024), "");
  const std::string warning = WarningOfFewDescriptors(JobOf(299), 1024);
  EXPECT_THAT(warning, HasSubstr("may open 1024 descriptors"));
  EXPECT_THAT(warning, HasSubstr("of 299 nodes needs 1025"));
  EXPECT_THAT(warning, HasSubstr("nofile=1025"));
}

TEST(ServingTest, ANodeAloneNeedsNoDescriptorsForOthers) {
  v1::NodeConfig config = JobOf(1);
  config.set_single_node(true);
  EXPECT_EQ(WarningOfFewDescriptors(config, 64), "");
}

}  // namespace
}  // namespace muster::rendezvous
