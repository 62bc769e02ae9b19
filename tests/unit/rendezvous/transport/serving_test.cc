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

TEST(ServingTest, ACoordinatorSaysHowItsJobIsProtected) {
  v1::NodeConfig config = JobOf(2);
  config.mutable_primary()->set_port(29500);
  EXPECT_EQ(NoteOfProtection(config)->severity, Severity::kWarning);
  EXPECT_THAT(NoteOfProtection(config)->text, HasSubstr("whoever reaches port 29500"));
  config.add_tokens("secret");
  EXPECT_EQ(NoteOfProtection(config)->severity, Severity::kInfo);
  EXPECT_THAT(NoteOfProtection(config)->text, HasSubstr("only nodes with the job's token"));
  config.clear_tokens();
  config.mutable_certificates()->set_ca_file("/run/ca.pem");
  EXPECT_THAT(NoteOfProtection(config)->text, HasSubstr("a certificate from /run/ca.pem"));
}

TEST(ServingTest, ProtectionIsDecidedInOnePlace) {
  v1::NodeConfig config = JobOf(2);
  EXPECT_EQ(ProtectionOf(config), Protection::kNone);
  config.set_loopback_only(true);
  EXPECT_EQ(ProtectionOf(config), Protection::kThisMachine);
  config.set_single_node(true);
  EXPECT_EQ(ProtectionOf(config), Protection::kNoPort);
  config.add_tokens("secret");
  EXPECT_EQ(ProtectionOf(config), Protection::kToken);
  config.mutable_certificates()->set_ca_file("/run/ca.pem");
  EXPECT_EQ(ProtectionOf(config), Protection::kCertificates);
}

TEST(ServingTest, WhereNoOtherMachineReachesItProtectionIsNotMentioned) {
  v1::NodeConfig config = JobOf(2);
  config.set_loopback_only(true);
  EXPECT_EQ(NoteOfProtection(config), std::nullopt);
  config = JobOf(1);
  config.set_single_node(true);
  EXPECT_EQ(NoteOfProtection(config), std::nullopt);
}

}  // namespace
}  // namespace muster::rendezvous
