// The default number of workers on simulated machines.
#include "agent/platform/machine/accelerators.h"

#include <set>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "agent/platform/machine/visible_devices.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace muster::machine {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

// A machine with files and one program.
struct FakeMachine {
  absl::StatusOr<ProgramResult> nvidia_smi = absl::NotFoundError("starting nvidia-smi: No such file or directory");
  std::map<std::string, std::string> files;
  int cpus = 6;

  // The names directly under a directory, as the files' paths give them.
  std::vector<std::string> List(const std::string& directory) const {
    std::set<std::string> names;
    for (const auto& [path, text] : files) {
      if (!absl::StartsWith(path, directory + "/")) continue;
      names.insert(path.substr(directory.size() + 1, path.find('/', directory.size() + 1) - directory.size() - 1));
    }
    return {names.rbegin(), names.rend()};  // in no useful order
  }

  MachineProbe Probe() const {
    return {[this](const std::vector<std::string>& argv, absl::Duration) {
              EXPECT_THAT(argv, ElementsAre("nvidia-smi", "-L"));
              return nvidia_smi;
            },
            [this](const std::string& path) { return List(path); },
            [this](const std::string& path) -> std::optional<std::string> {
              const auto found = files.find(path);
              if (found == files.end()) return std::nullopt;
              return found->second;
            },
            [this] { return cpus; }};
  }

  Accelerators Count(const Environment& environment = {}) const { return CountAccelerators(environment, Probe()); }
  absl::StatusOr<WorkerCount> Workers(std::string_view wish, const Environment& environment = {}) const {
    return CountWorkers(wish, environment, Probe());
  }
};

std::string GpuLine(int index) {
  return absl::StrCat("GPU ", index, ": NVIDIA H100 80GB HBM3 (UUID: GPU-", index, index, "aa-bb)\n");
}

FakeMachine WithGpus(int count) {
  FakeMachine machine;
  ProgramResult list;
  for (int i = 0; i < count; ++i) list.output += GpuLine(i);
  machine.nvidia_smi = list;
  return machine;
}

FakeMachine WithMig() {
  FakeMachine machine;
  machine.nvidia_smi = ProgramResult{0, GpuLine(0) +
                                            "  MIG 3g.40gb     Device  0: (UUID: MIG-a)\n"
                                            "  MIG 3g.40gb     Device  1: (UUID: MIG-b)\n" +
                                            GpuLine(1)};
  return machine;
}

FakeMachine WithProcGpus(int count) {
  FakeMachine machine;
  for (int i = 0; i < count; ++i) {
    machine.files[absl::StrCat("/proc/driver/nvidia/gpus/0000:0", i, ":00.0/information")] =
        absl::StrCat("Model: \t NVIDIA T4\nGPU UUID: \t GPU-", i, "\nBus Type: \t PCIe\n");
  }
  return machine;
}

Environment Cuda(const std::string& list) { return {{"CUDA_VISIBLE_DEVICES", list}}; }

// ---- NVIDIA ----

TEST(Accelerators, NvidiaSmiDecidesWhereItWorks) {
  FakeMachine machine = WithGpus(8);
  machine.files["/dev/nvidia0"] = "";  // as many as the list says, whatever else is there
  const Accelerators found = machine.Count();
  EXPECT_EQ(found.count, 8);
  EXPECT_EQ(found.visible_variable, "CUDA_VISIBLE_DEVICES");
  EXPECT_THAT(found.visible, ElementsAre("0", "1", "2", "3", "4", "5", "6", "7"));
  EXPECT_EQ(found.reason, "8 GPUs: nvidia-smi -L lists them");
  EXPECT_THAT(found.warnings, IsEmpty());
}

TEST(Accelerators, OnlyLinesOfTheListAreDevices) {
  FakeMachine machine;
  machine.nvidia_smi = ProgramResult{0, "GPU access blocked\nGPU : x\nWarning GPU 0:\nNo devices found.\n\n"};
  EXPECT_EQ(machine.Count().count, 0);
}

TEST(Accelerators, WithoutNvidiaSmiTheDriversFilesCount) {
  EXPECT_EQ(WithProcGpus(2).Count().count, 2);
  EXPECT_THAT(WithProcGpus(2).Count().warnings, IsEmpty());
}

TEST(Accelerators, AFailingNvidiaSmiIsLoggedAndFilesCount) {
  FakeMachine machine = WithProcGpus(2);
  machine.nvidia_smi = ProgramResult{9, "couldn't communicate with the NVIDIA driver"};
  EXPECT_EQ(machine.Count().count, 2);
  EXPECT_THAT(machine.Count().warnings, ElementsAre(HasSubstr("nvidia-smi -L exited with 9")));
  machine.nvidia_smi = absl::DeadlineExceededError("did not answer within 1m");
  EXPECT_THAT(machine.Count().warnings, ElementsAre(HasSubstr("did not answer within 1m")));
}

TEST(Accelerators, AFailingNvidiaSmiWithoutAGpuIsNotLogged) {
  FakeMachine machine;
  machine.nvidia_smi = ProgramResult{9, ""};
  EXPECT_EQ(machine.Count().count, 0);
  EXPECT_THAT(machine.Count().warnings, IsEmpty());
}

TEST(Accelerators, AContainersDeviceFilesLimitTheCount) {
  FakeMachine machine = WithProcGpus(4);
  machine.files["/dev/nvidia2"] = "";
  machine.files["/dev/nvidia3"] = "";
  machine.files["/dev/nvidiactl"] = "";
  machine.files["/dev/nvidia-uvm"] = "";
  EXPECT_EQ(machine.Count().count, 2);
  EXPECT_THAT(machine.Count().reason, HasSubstr("/dev/nvidiaN"));
}

TEST(Accelerators, DeviceFilesAloneCountToo) {
  FakeMachine machine;
  machine.files["/dev/nvidia0"] = "";
  EXPECT_EQ(machine.Count().count, 1);
}

TEST(Accelerators, UuidsComeFromTheDriversFiles) {
  EXPECT_THAT(WithProcGpus(3).Count(Cuda("GPU-2,GPU-0")).visible, ElementsAre("GPU-2", "GPU-0"));
  EXPECT_EQ(WithProcGpus(3).Count(Cuda("GPU-9")).count, 0);
}

TEST(Accelerators, UnknownUuidsCountUpToTheDevices) {
  FakeMachine machine;
  machine.files["/dev/nvidia0"] = "";
  machine.files["/dev/nvidia1"] = "";
  EXPECT_EQ(machine.Count(Cuda("GPU-x,GPU-y")).count, 2);
  EXPECT_EQ(machine.Count(Cuda("GPU-x,GPU-y,GPU-z")).count, 2);
}

// ---- CUDA_VISIBLE_DEVICES ----

struct ListCase {
  std::string list;
  int usable;
  size_t warnings;
};

TEST(VisibleDevices, AreReadAsCudaReadsThem) {
  const FakeMachine machine = WithGpus(4);
  const std::vector<ListCase> cases = {
      {"0", 1, 0},
      {"3,1", 2, 0},
      {" 2 , 0 ", 2, 0},
      {"0,1,2,3", 4, 0},
      {"", 0, 0},
      {" ", 0, 0},
      {"-1", 0, 0},
      {"0,-1,1", 1, 1},  // a negative index ends the list
      {"0,4,1", 1, 1},   // so does an absent device
      {"0,,1", 1, 1},
      {"0,", 1, 1},
      {"x", 0, 1},
      {"NoDevFiles", 0, 1},  // what Slurm writes
      {"1gpu,2gpu", 2, 0},   // digits in front are enough
      {"0,0", 0, 1},         // a duplicate makes the whole list invalid
      {"99999999999999999999", 0, 1},
      {"GPU-00aa-bb", 1, 0},
      {"GPU-0,GPU-3", 2, 0},  // any unambiguous beginning
      {"GPU-", 0, 1},         // ambiguous
      {"GPU-1,1", 0, 1},      // the same device by two names
      {"GPU-1,GPU-77,GPU-2", 1, 1},
      {"MIG-a", 0, 1},  // no MIG here
      {"0\n1", 1, 0},
  };
  for (const ListCase& c : cases) {
    const Accelerators found = machine.Count(Cuda(c.list));
    EXPECT_EQ(found.count, c.usable) << '"' << c.list << '"';
    EXPECT_THAT(found.warnings, SizeIs(c.warnings)) << '"' << c.list << '"';
    for (const std::string& warning : found.warnings) EXPECT_FALSE(absl::StrContains(warning, "\n"));
    EXPECT_FALSE(absl::StrContains(found.reason, "\n"));
  }
}

TEST(VisibleDevices, KeepTheOrderOfTheList) {
  EXPECT_THAT(WithGpus(4).Count(Cuda("3,1,2")).visible, ElementsAre("3", "1", "2"));
}

TEST(VisibleDevices, EachMigInstanceGetsItsOwnWorker) {
  const FakeMachine machine = WithMig();
  EXPECT_EQ(machine.Count(Cuda("MIG-b")).count, 1);
  EXPECT_THAT(machine.Count(Cuda("MIG-b")).warnings, IsEmpty());
  EXPECT_EQ(machine.Count(Cuda("MIG-a,MIG-b")).count, 2);
  EXPECT_TRUE(machine.Count(Cuda("MIG-a,MIG-b")).apart);
  EXPECT_THAT(machine.Count(Cuda("MIG-a,MIG-b")).visible, ElementsAre("MIG-a", "MIG-b"));
  EXPECT_EQ(machine.Count(Cuda("MIG-c")).count, 0);
  EXPECT_EQ(machine.Count(Cuda("MIG-a,MIG-a")).count, 0);
  EXPECT_EQ(machine.Count(Cuda("1")).count, 1);
  EXPECT_EQ(machine.Count(Cuda("0")).count, 1);
  EXPECT_EQ(machine.Count(Cuda("MIG-GPU-00aa-bb/1/0")).count, 1);  // the form of older drivers
  EXPECT_FALSE(machine.Count(Cuda("1")).apart);
  EXPECT_EQ(machine.Count().count, 3);
  EXPECT_THAT(machine.Count().visible, ElementsAre("MIG-a", "MIG-b", "1"));
  const WorkerCount workers = machine.Workers("auto").value();
  EXPECT_EQ(workers.workers, 3);
  EXPECT_EQ(workers.visible_variable, "CUDA_VISIBLE_DEVICES");
  EXPECT_THAT(workers.own_devices, ElementsAre("MIG-a", "MIG-b", "1"));
  EXPECT_THAT(WithGpus(2).Workers("auto")->own_devices, IsEmpty()) << "whole GPUs are chosen by LOCAL_RANK";
}

TEST(VisibleDevices, WithoutAnyDeviceNothingIsVisible) {
  EXPECT_EQ(FakeMachine().Count(Cuda("0,1")).count, 0);
  EXPECT_EQ(ReadVisibleDevices("V", "GPU-x", {}).usable, 0);
  EXPECT_EQ(ReadVisibleDevices("V", "MIG-GPU-x/1/0", {}).usable, 0);
  EXPECT_EQ(ReadVisibleDevices("V", std::nullopt, {}).usable, 0);
}

// ---- AMD ----

FakeMachine WithAmd(int gpus) {
  FakeMachine machine;
  const std::string nodes = "/sys/class/kfd/kfd/topology/nodes/";
  machine.files[nodes + "0/properties"] = "cpu_cores_count 64\nsimd_count 0\nmem_banks_count 1\n";
  for (int i = 1; i <= gpus; ++i) {
    machine.files[absl::StrCat(nodes, i, "/properties")] = "cpu_cores_count 0\nsimd_count 304\n";
  }
  return machine;
}

TEST(Accelerators, AmdGpusAreTheNodesWithComputeUnits) {
  const Accelerators found = WithAmd(8).Count();
  EXPECT_EQ(found.count, 8);
  EXPECT_EQ(found.visible_variable, "HIP_VISIBLE_DEVICES");
}

TEST(Accelerators, AmdsListsAreAppliedOneAfterTheOther) {
  const FakeMachine machine = WithAmd(4);
  EXPECT_EQ(machine.Count({{"ROCR_VISIBLE_DEVICES", "2,3"}}).count, 2);
  EXPECT_EQ(machine.Count({{"HIP_VISIBLE_DEVICES", "0"}}).count, 1);
  EXPECT_EQ(machine.Count({{"ROCR_VISIBLE_DEVICES", "2,3"}, {"HIP_VISIBLE_DEVICES", "0,1"}}).count, 2);
  EXPECT_EQ(machine.Count({{"ROCR_VISIBLE_DEVICES", "2,3"}, {"HIP_VISIBLE_DEVICES", "2"}}).count, 0);
  EXPECT_EQ(machine.Count({{"ROCR_VISIBLE_DEVICES", ""}}).count, 0);
  EXPECT_EQ(machine.Count({{"ROCR_VISIBLE_DEVICES", "GPU-f00,GPU-ba5"}}).count, 2);
  EXPECT_EQ(machine.Count(Cuda("1,2,3")).count, 3);
  EXPECT_EQ(machine.Count(Cuda("1,2,3")).visible_variable, "CUDA_VISIBLE_DEVICES");
  EXPECT_EQ(machine.Count({{"HIP_VISIBLE_DEVICES", "0"}, {"CUDA_VISIBLE_DEVICES", "1,2"}}).count, 1);
}

// ---- Others ----

TEST(Accelerators, UnknownDevicesRefuseAutomaticCounts) {
  for (const std::string device : {"/dev/neuron0", "/dev/accel0", "/dev/accel/accel0"}) {
    FakeMachine machine;
    machine.files[device] = "";
    EXPECT_THAT(machine.Count().unknown, ElementsAre(device));
    for (const char* wish : {"auto", "gpu", ""}) {
      const absl::Status status = machine.Workers(wish).status();
      EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition) << device << " " << wish;
      EXPECT_THAT(std::string(status.message()), HasSubstr(device));
    }
    EXPECT_EQ(machine.Workers("3").value().workers, 3);
    EXPECT_EQ(machine.Workers("cpu").value().workers, 6);
  }
}

TEST(Accelerators, LaptopNpusAndScreensAreNoAccelerators) {
  FakeMachine machine;
  machine.files = {{"/dev/accel/accel0", ""},
                   {"/sys/class/accel/accel0/device/uevent", "DRIVER=intel_vpu\nPCI_CLASS=120000\n"},
                   {"/dev/dri/renderD128", ""},
                   {"/sys/class/drm/renderD128/device/vendor", "0x8086\n"},
                   {"/sys/class/drm/renderD128/device/class", "0x030000\n"},
                   {"/dev/hlx", ""},
                   {"/dev/neuron", ""},
                   {"/dev/nvidiactl", ""}};
  EXPECT_THAT(machine.Count().unknown, IsEmpty());
  EXPECT_EQ(machine.Workers("auto").value().workers, 6);
}

struct OtherMaker {
  const char* kind;
  const char* variable;
  std::map<std::string, std::string> two;  // files of a machine with two of them
};

const OtherMaker kOtherMakers[] = {
    {"xpu",
     "ZE_AFFINITY_MASK",
     {{"/dev/dri/renderD128", ""},
      {"/sys/class/drm/renderD128/device/vendor", "0x8086\n"},
      {"/sys/class/drm/renderD128/device/class", "0x038000\n"},
      {"/dev/dri/renderD129", ""},
      {"/sys/class/drm/renderD129/device/vendor", "0x8086\n"},
      {"/sys/class/drm/renderD129/device/class", "0x038000\n"}}},
    {"npu",
     "ASCEND_RT_VISIBLE_DEVICES",
     {{"/dev/davinci0", ""}, {"/dev/davinci1", ""}, {"/dev/davinci_manager", ""}}},
    {"hpu", "HABANA_VISIBLE_MODULES", {{"/dev/hl0", ""}, {"/dev/hl1", ""}, {"/dev/hl_controlD0", ""}}},
    {"hpu",
     "HABANA_VISIBLE_MODULES",
     {{"/dev/accel/accel0", ""},
      {"/sys/class/accel/accel0/device/uevent", "DRIVER=habanalabs\n"},
      {"/dev/accel/accel1", ""},
      {"/sys/class/accel/accel1/device/uevent", "DRIVER=habanalabs\n"}}},
};

TEST(Accelerators, EachMakersFilesAndVariableAreUsed) {
  for (const OtherMaker& maker : kOtherMakers) {
    FakeMachine machine;
    machine.files = maker.two;
    for (const char* wish : {"auto", "", maker.kind}) {
      const auto count = machine.Workers(wish);
      ASSERT_TRUE(count.ok()) << maker.kind << " " << wish << ": " << count.status();
      EXPECT_EQ(count->workers, 2) << maker.kind << " " << wish;
    }
    EXPECT_EQ(machine.Workers("auto", {{maker.variable, "1"}})->workers, 1) << maker.kind;
    EXPECT_EQ(machine.Count().kind, maker.kind);
    EXPECT_EQ(machine.Workers("gpu").status().code(), absl::StatusCode::kFailedPrecondition) << maker.kind;
    EXPECT_EQ(WithGpus(2).Workers(maker.kind).status().code(), absl::StatusCode::kFailedPrecondition)
        << maker.kind;
  }
}

// ---- --nproc-per-node ----

TEST(WorkerCount, ANumberAsksTheMachineNothing) {
  MachineProbe none;  // calling any of it would throw
  EXPECT_EQ(CountWorkers("4", {}, none).value().workers, 4);
  EXPECT_EQ(CountWorkers("1024", {}, none).value().workers, 1024);
  for (const char* wish : {"0", "-1", "1025"}) {
    EXPECT_EQ(CountWorkers(wish, {}, none).status().code(), absl::StatusCode::kInvalidArgument) << wish;
  }
}

TEST(WorkerCount, AutoMeansAcceleratorsElseCpus) {
  EXPECT_EQ(WithGpus(2).Workers("auto").value().workers, 2);
  EXPECT_EQ(FakeMachine().Workers("auto").value().workers, 6);
  EXPECT_EQ(WithGpus(2).Workers("auto", Cuda("")).value().workers, 6);
  EXPECT_EQ(FakeMachine().Workers("auto").value().reason, "no accelerator was found; 6 CPUs may be used here");
}

TEST(WorkerCount, OnePerAcceleratorOnAPlatformElseOne) {
  EXPECT_EQ(WithGpus(2).Workers("").value().workers, 2);
  EXPECT_EQ(FakeMachine().Workers("").value().workers, 1);
  EXPECT_EQ(WithGpus(2).Workers("", Cuda("-1")).value().workers, 1);
}

TEST(WorkerCount, GpuWithoutAGpuIsAnError) {
  EXPECT_EQ(WithGpus(2).Workers("gpu").value().workers, 2);
  EXPECT_EQ(FakeMachine().Workers("gpu").status().code(), absl::StatusCode::kFailedPrecondition);
  const absl::Status hidden = WithGpus(2).Workers("gpu", Cuda("")).status();
  EXPECT_THAT(std::string(hidden.message()), HasSubstr("CUDA_VISIBLE_DEVICES= leaves 0"));
}

TEST(WorkerCount, CpuCountsUsableCpusEvenWithGpus) { EXPECT_EQ(WithGpus(2).Workers("cpu").value().workers, 6); }

TEST(WorkerCount, OtherWordsAreRefused) {
  for (const char* wish : {"tpu", "GPU", "auto ", "2x", "1.5", "a\nb"}) {
    const absl::Status status = FakeMachine().Workers(wish).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << wish;
    EXPECT_FALSE(absl::StrContains(status.message(), "\n"));
  }
}

TEST(WorkerCount, CarriesTheWarningsOfTheCount) {
  EXPECT_THAT(WithGpus(2).Workers("auto", Cuda("0,7")).value().warnings, SizeIs(1));
}

}  // namespace
}  // namespace muster::machine
