// --preemption-notice, --stop-before and --deadline: what is watched, when the node stops, and the source of each.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/core/status_macros.h"
#include "cli/options/exit_codes.h"
#include "cli/options/option_table.h"
#include "cli/options/read_settings.h"
#include "cli/plan/parts.h"

namespace muster::cli {
namespace {

using ::testing::HasSubstr;
using Words = std::vector<std::string>;
using Firmware = std::map<std::string, std::string>;

constexpr char kProduct[] = "/sys/class/dmi/id/product_name";
constexpr char kVendor[] = "/sys/class/dmi/id/sys_vendor";
constexpr char kNoon[] = "2026-11-21T12:00:00Z";

LeavingSettings Read(const Words& words, const Environment& environment = {}) {
  const absl::StatusOr<CommandLine> line = ParseCommandLine(RunOptions(), words);
  EXPECT_TRUE(line.ok()) << line.status();
  const absl::StatusOr<Settings> settings = ReadSettings(*line, environment);
  EXPECT_TRUE(settings.ok()) << settings.status();
  return settings.ok() ? settings->leaving : LeavingSettings();
}

absl::StatusOr<NoticePlan> TryNotice(const std::string& choice, const Environment& environment = {},
                                     const Firmware& firmware = {}) {
  return PlanNotice(Read({"--preemption-notice", choice}), environment,
                    [&](const std::string& path) -> std::optional<std::string> {
                      EXPECT_EQ(choice, "auto") << path << " is nobody's business";
                      const auto found = firmware.find(path);
                      return found == firmware.end() ? std::nullopt : std::optional(found->second);
                    });
}

NoticePlan Notice(const std::string& choice, const Environment& environment = {}, const Firmware& firmware = {}) {
  const absl::StatusOr<NoticePlan> plan = TryNotice(choice, environment, firmware);
  EXPECT_TRUE(plan.ok()) << plan.status();
  return plan.ok() ? *plan : NoticePlan();
}

TEST(NoticePlanTest, NothingIsWatchedByDefault) {
  const absl::StatusOr<NoticePlan> plan = PlanNotice(Read({}), {}, nullptr);
  ASSERT_TRUE(plan.ok());
  EXPECT_EQ(plan->source.kind(), v1::NoticeSource::OFF);
  EXPECT_EQ(plan->shown, "off");
  EXPECT_EQ(Notice("off").source.kind(), v1::NoticeSource::OFF);
}

TEST(NoticePlanTest, AVariableMovesACloudsMetadataServer) {
  EXPECT_EQ(Notice("gce").shown, "gce, at 169.254.169.254:80");
  EXPECT_EQ(Notice("aws").shown, "aws, at 169.254.169.254:80");
  EXPECT_EQ(Notice("gce").why, "--preemption-notice");
  EXPECT_EQ(Notice("gce", {{"GCE_METADATA_HOST", "127.0.0.1:5000"}}).shown, "gce, at 127.0.0.1:5000");
  EXPECT_EQ(Notice("gce", {{"GCE_METADATA_HOST", "metadata.google.internal"}}).source.server().host(),
            "metadata.google.internal");
  EXPECT_EQ(Notice("aws", {{"AWS_EC2_METADATA_SERVICE_ENDPOINT", "http://127.0.0.1:5000/"}}).shown,
            "aws, at 127.0.0.1:5000");
  EXPECT_EQ(Notice("aws", {{"AWS_EC2_METADATA_SERVICE_ENDPOINT", "http://[fd00:ec2::254]"}}).shown,
            "aws, at [fd00:ec2::254]:80");
}

TEST(NoticePlanTest, AnInvalidServerVariableIs65) {
  for (const char* value : {"http://h", "h:port", "h:0", "a b"}) {
    const auto plan = TryNotice("gce", {{"GCE_METADATA_HOST", value}});
    EXPECT_EQ(ExitCodeOf(plan.status()), 65) << value;
    EXPECT_THAT(std::string(AsStd(plan.status().message())), HasSubstr("GCE_METADATA_HOST"));
  }
  for (const char* value : {"https://h", "h:80", "http://", "http://h:x/", "http://h/latest"}) {
    const auto plan = TryNotice("aws", {{"AWS_EC2_METADATA_SERVICE_ENDPOINT", value}});
    EXPECT_EQ(ExitCodeOf(plan.status()), 65) << value;
    EXPECT_THAT(std::string(AsStd(plan.status().message())), HasSubstr("AWS_EC2_METADATA_SERVICE_ENDPOINT"));
  }
}

TEST(NoticePlanTest, AutoFollowsTheFirmwareAlone) {
  const NoticePlan gce = Notice("auto", {}, {{kProduct, "Google Compute Engine\n"}, {kVendor, "Google\n"}});
  EXPECT_EQ(gce.source.kind(), v1::NoticeSource::GCE);
  EXPECT_THAT(gce.why, HasSubstr("product_name says Google Compute Engine"));
  EXPECT_EQ(Notice("auto", {}, {{kProduct, "Google"}}).source.kind(), v1::NoticeSource::GCE);
  const NoticePlan aws = Notice("auto", {}, {{kProduct, "p4d.24xlarge\n"}, {kVendor, "Amazon EC2\n"}});
  EXPECT_EQ(aws.source.kind(), v1::NoticeSource::AWS);
  EXPECT_EQ(aws.shown, "aws, at 169.254.169.254:80");
  for (const Firmware& other :
       {Firmware{}, {{kProduct, "Standard PC"}, {kVendor, "QEMU"}}, {{kVendor, "Google"}}}) {
    const NoticePlan none = Notice("auto", {{"GCE_METADATA_HOST", "127.0.0.1"}}, other);
    EXPECT_EQ(none.source.kind(), v1::NoticeSource::OFF);
    EXPECT_THAT(none.why, HasSubstr("is not that of GCE or EC2"));
  }
}

TEST(NoticePlanTest, Ec2UnderXenIsRecognizedByBiosOrUuid) {
  constexpr char kBios[] = "/sys/class/dmi/id/bios_version";
  constexpr char kDmiUuid[] = "/sys/class/dmi/id/product_uuid";
  constexpr char kXenUuid[] = "/sys/hypervisor/uuid";
  for (const Firmware& ec2 : {Firmware{{kVendor, "Xen\n"}, {kBios, "4.11.amazon\n"}},
                              Firmware{{kVendor, "Xen\n"}, {kDmiUuid, "EC2E1916-9099-7CAF-FD21-012345ABCDEF\n"}},
                              Firmware{{kXenUuid, "ec2e1916-9099-7caf-fd21-012345abcdef\n"}}}) {
    EXPECT_EQ(Notice("auto", {}, ec2).source.kind(), v1::NoticeSource::AWS);
  }
  EXPECT_THAT(Notice("auto", {}, {{kVendor, "Xen"}, {kBios, "4.11.amazon"}}).why, HasSubstr("says 4.11.amazon"));
  for (const Firmware& other : {Firmware{{kVendor, "Xen"}, {kBios, "4.17"}},
                                Firmware{{kVendor, "QEMU"}, {kDmiUuid, "ec2e1916-9099-7caf-fd21-012345abcdef"}},
                                Firmware{{kVendor, "QEMU"}, {kBios, "4.11.amazon"}},
                                Firmware{{kVendor, "Xen"}, {kXenUuid, "1ec21916-9099-7caf-fd21-012345abcdef"}}}) {
    EXPECT_EQ(Notice("auto", {}, other).source.kind(), v1::NoticeSource::OFF);
  }
}

TEST(NoticePlanTest, PasswordsInAddressesAreMasked) {
  for (const char* variable : {"GCE_METADATA_HOST", "AWS_EC2_METADATA_SERVICE_ENDPOINT"}) {
    for (const char* value : {"http://user:S3CRET@h", "https://user:S3CRET@h/", "user:S3CRET@h:80"}) {
      const auto plan = TryNotice(variable[0] == 'G' ? "gce" : "aws", {{variable, value}});
      EXPECT_EQ(ExitCodeOf(plan.status()), 65) << value;
      EXPECT_THAT(std::string(AsStd(plan.status().message())), testing::Not(HasSubstr("S3CRET"))) << value;
    }
  }
}

TEST(NoticePlanTest, AFilesPathIsKeptVerbatim) {
  EXPECT_EQ(Notice("file:/run/evict: now").source.file(), "/run/evict: now");
}

DeadlinePlan Deadline(const Words& words, const Environment& environment = {}) {
  const absl::StatusOr<DeadlinePlan> plan = PlanDeadline(Read(words, environment), environment);
  EXPECT_TRUE(plan.ok()) << plan.status();
  return plan.ok() ? *plan : DeadlinePlan();
}

TEST(DeadlinePlanTest, ThereIsNoDeadlineByDefaultEvenUnderSlurm) {
  EXPECT_FALSE(Deadline({}).stop);
  EXPECT_FALSE(Deadline({}, {{"SLURM_JOB_END_TIME", "1795262400"}}).stop);
  EXPECT_FALSE(Deadline({}, {{"SLURM_JOB_END_TIME", "soon"}}).stop) << "unused variables are not read";
  EXPECT_FALSE(Deadline({"--deadline", kNoon, "--stop-before", "0"}).stop);
  EXPECT_FALSE(Deadline({"--stop-before", "0"}).stop);
}

TEST(DeadlinePlanTest, ADeadlineHasTwoForms) {
  for (const char* text : {kNoon, "2026-11-21T13:00:00+01:00", "1795262400"}) {
    const DeadlinePlan plan = Deadline({"--deadline", text});
    ASSERT_TRUE(plan.stop) << text;
    EXPECT_EQ(plan.deadline, kNoon);
    EXPECT_EQ(plan.stop->deadline, absl::FromUnixSeconds(1795262400));
    EXPECT_EQ(plan.stop->before, kStopBefore);
    EXPECT_EQ(plan.stop->why, "--stop-before 1m, deadline 2026-11-21T12:00:00Z (--deadline)");
  }
}

TEST(DeadlinePlanTest, StopBeforeUsesSlurmsEndByDefault) {
  const Environment slurm = {{"SLURM_JOB_END_TIME", "1795262400"}};
  const DeadlinePlan plan = Deadline({"--stop-before", "5m"}, slurm);
  ASSERT_TRUE(plan.stop);
  EXPECT_EQ(plan.stop->why, "--stop-before 5m, deadline 2026-11-21T12:00:00Z (SLURM_JOB_END_TIME)");
  EXPECT_EQ(Deadline({"--stop-before", "5m", "--deadline", "2026-11-21T11:00:00Z"}, slurm).origin, "--deadline");
  EXPECT_EQ(Deadline({}, {{"MUSTER_STOP_BEFORE", "5m"}, {"SLURM_JOB_END_TIME", "1795262400"}}).origin,
            "SLURM_JOB_END_TIME");
}

TEST(DeadlinePlanTest, StopBeforeNeedsAValidDeadline) {
  const LeavingSettings settings = Read({"--stop-before", "5m"});
  EXPECT_EQ(ExitCodeOf(PlanDeadline(settings, {{"SLURM_JOB_END_TIME", "soon"}}).status()), 65);
  EXPECT_EQ(ExitCodeOf(PlanDeadline(settings, {}).status()), 64);
  const absl::Status old_slurm = PlanDeadline(settings, {{"SLURM_JOB_ID", "7"}}).status();
  EXPECT_EQ(ExitCodeOf(old_slurm), 64);
  EXPECT_THAT(std::string(AsStd(old_slurm.message())), HasSubstr("squeue --noheader --jobs $SLURM_JOB_ID"));
  EXPECT_EQ(ExitCodeOf(PlanDeadline(Read({}, {{"MUSTER_STOP_BEFORE", "5m"}}), {}).status()), 65);
}

}  // namespace
}  // namespace muster::cli
