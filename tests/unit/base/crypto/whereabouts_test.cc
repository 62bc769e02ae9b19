#include "base/crypto/whereabouts.h"

#include <gtest/gtest.h>

#include <set>

namespace muster {
namespace {

constexpr char kBoot[] = "6f1f7c2e-0a44-4f0c-9d51-2f9a1c1b0a11";
constexpr char kNamespace[] = "pid:[4026531836]";

TEST(WhereaboutsTest, HostsOfOneUserInOneContainerDifferByTheirProcessAlone) {
  const v1::Whereabouts one = WhereaboutsOf(kBoot, kNamespace, 7, 100);
  const v1::Whereabouts other = WhereaboutsOf(kBoot, kNamespace, 7, 101);
  EXPECT_EQ(one.machine(), other.machine());
  EXPECT_EQ(one.container(), other.container());
  EXPECT_EQ(one.user(), other.user());
  EXPECT_NE(one.process(), other.process());
  EXPECT_EQ(ProcessHash(one.user(), 101), other.process());
}

TEST(WhereaboutsTest, AnotherUserContainerOrMachineIsAnotherPlace) {
  std::set<std::string> users, processes, containers, machines;
  for (const auto& [boot, name, user] : {std::tuple(kBoot, kNamespace, 7u), std::tuple(kBoot, kNamespace, 8u),
                                         std::tuple(kBoot, "pid:[1]", 7u), std::tuple("boot", kNamespace, 7u)}) {
    const v1::Whereabouts where = WhereaboutsOf(boot, name, user, 100);
    users.insert(where.user());
    processes.insert(where.process());
    containers.insert(where.container());
    machines.insert(where.machine());
  }
  EXPECT_EQ(users.size(), 4u);
  EXPECT_EQ(processes.size(), 4u);
  EXPECT_EQ(containers.size(), 3u);
  EXPECT_EQ(machines.size(), 2u);
}

TEST(WhereaboutsTest, NothingOfItIsReadable) {
  const std::string all = WhereaboutsOf(kBoot, kNamespace, 4711, 99123).ShortDebugString();
  for (const char* part : {kBoot, "4026531836", "4711", "99123"}) {
    EXPECT_EQ(all.find(part), std::string::npos) << part;
  }
}

// Two hosts must not be taken for neighbours because neither knows where it is.
TEST(WhereaboutsTest, AnUnknownPlaceIsEmpty) {
  EXPECT_EQ(WhereaboutsOf("", kNamespace, 7, 100).ByteSizeLong(), 0u);
  EXPECT_EQ(WhereaboutsOf(kBoot, "", 7, 100).ByteSizeLong(), 0u);
}

}  // namespace
}  // namespace muster
