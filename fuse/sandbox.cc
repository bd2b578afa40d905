// SPDX-License-Identifier: GPL-3.0-or-later
#include "fuse/sandbox.h"

#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdint>
#include <ctime>
#include <exception>
#include <memory>
#include <system_error>
#include <thread>

#include <fcntl.h>
#include <linux/capability.h>
#include <linux/landlock.h>
#include <seccomp.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/ucontext.h>
#include <unistd.h>

#include "core/thread_error.h"
#include "core/unique_fd.h"

namespace cryptimg {
namespace {

#ifdef CRYPTIMG_SANITIZED
constexpr bool kHasSanitizers = true;
#else
constexpr bool kHasSanitizers = false;
#endif

// All that serving needs, whatever the arguments: I/O on what is open, memory, waiting, the end.
constexpr int kAllowed[] = {
    // Requests, the container, the log.
    SCMP_SYS(read), SCMP_SYS(write), SCMP_SYS(readv), SCMP_SYS(writev), SCMP_SYS(pread64),
    SCMP_SYS(pwrite64), SCMP_SYS(preadv), SCMP_SYS(pwritev), SCMP_SYS(preadv2), SCMP_SYS(pwritev2),
    SCMP_SYS(fdatasync), SCMP_SYS(fsync), SCMP_SYS(sync_file_range), SCMP_SYS(fallocate),
    SCMP_SYS(readahead), SCMP_SYS(fadvise64), SCMP_SYS(lseek), SCMP_SYS(fstat), SCMP_SYS(fstatfs),
    SCMP_SYS(close),
    // Memory. mmap and mprotect: see below.
    SCMP_SYS(munmap), SCMP_SYS(mremap), SCMP_SYS(madvise), SCMP_SYS(mincore), SCMP_SYS(msync),
    SCMP_SYS(mlock), SCMP_SYS(munlock), SCMP_SYS(brk),
    // Threads, signals, time.
    SCMP_SYS(futex), SCMP_SYS(poll), SCMP_SYS(ppoll), SCMP_SYS(rt_sigaction),
    SCMP_SYS(rt_sigprocmask), SCMP_SYS(rt_sigreturn), SCMP_SYS(sigaltstack),
    SCMP_SYS(restart_syscall), SCMP_SYS(nanosleep), SCMP_SYS(clock_nanosleep),
    SCMP_SYS(clock_gettime), SCMP_SYS(clock_getres), SCMP_SYS(gettimeofday), SCMP_SYS(time),
    SCMP_SYS(sched_yield), SCMP_SYS(sched_getaffinity), SCMP_SYS(getcpu), SCMP_SYS(set_robust_list),
    SCMP_SYS(rseq), SCMP_SYS(getrandom), SCMP_SYS(getpid), SCMP_SYS(gettid), SCMP_SYS(getuid),
    SCMP_SYS(geteuid), SCMP_SYS(getgid), SCMP_SYS(getegid), SCMP_SYS(exit), SCMP_SYS(exit_group),
    SCMP_SYS(wait4),
    // The control socket, the janitor, syslog: sockets that are open, and who comes to the first.
    SCMP_SYS(accept4), SCMP_SYS(recvfrom), SCMP_SYS(sendto), SCMP_SYS(getsockopt),
    SCMP_SYS(shutdown),
    // What some of these are on other processors; they are no calls here.
    SCMP_SYS(_llseek), SCMP_SYS(fstat64), SCMP_SYS(fstatfs64), SCMP_SYS(fadvise64_64),
    SCMP_SYS(arm_fadvise64_64), SCMP_SYS(sync_file_range2), SCMP_SYS(futex_time64),
    SCMP_SYS(ppoll_time64), SCMP_SYS(clock_gettime64), SCMP_SYS(clock_nanosleep_time64),
    SCMP_SYS(getuid32), SCMP_SYS(geteuid32), SCMP_SYS(getgid32), SCMP_SYS(getegid32)};

// Nobody here does that by accident.
constexpr int kDeadly[] = {SCMP_SYS(execve), SCMP_SYS(execveat), SCMP_SYS(ptrace),
                           SCMP_SYS(process_vm_readv), SCMP_SYS(process_vm_writev)};

// How a call that is not allowed ends: where its result can be set from a handler it is counted,
// too (on_refused).
#if defined(__x86_64__)
constexpr std::uint32_t kRefused = SCMP_ACT_TRAP;
#else
constexpr std::uint32_t kRefused = SCMP_ACT_ERRNO(EPERM);
#endif

std::atomic<std::uint64_t> refused_count{0};

#if defined(__x86_64__)
// Stands in for the call: counts it, and lets it return EPERM. A call number of -1 is that of a
// tracer, root's, which gives the result itself (strace's injected faults).
void on_refused(int /*signal*/, siginfo_t* info, void* context) {
  constexpr int kSysSeccomp = 1;  // SYS_SECCOMP, which not every C library names
  if (info->si_code == kSysSeccomp && info->si_syscall != -1) {
    refused_count.fetch_add(1, std::memory_order_relaxed);
    static_cast<ucontext_t*>(context)->uc_mcontext.gregs[REG_RAX] = -EPERM;
  }
}
#endif

bool install_handler() {
#if defined(__x86_64__)
  struct sigaction action = {};
  action.sa_sigaction = on_refused;
  action.sa_flags = SA_SIGINFO | SA_ONSTACK;
  return ::sigaction(SIGSYS, &action, nullptr) == 0;
#else
  return true;
#endif
}

struct FilterCloser {
  void operator()(void* filter) const { ::seccomp_release(filter); }
};
using Filter = std::unique_ptr<void, FilterCloser>;

// Allows `call`, or what `action` says, where the bits `mask` of its argument number `index` are
// `value`.
bool allow_if(const Filter& filter, int call, unsigned index, scmp_datum_t mask, scmp_datum_t value,
              std::uint32_t action = SCMP_ACT_ALLOW) {
  scmp_arg_cmp rule = {};
  rule.arg = index;
  rule.op = SCMP_CMP_MASKED_EQ;
  rule.datum_a = mask;
  rule.datum_b = value;
  return ::seccomp_rule_add_array(filter.get(), action, call, 1, &rule) == 0;
}

bool add_rules(const Filter& filter) {
  constexpr scmp_datum_t kAll = ~scmp_datum_t{0};
  bool ok = true;
  for (const int call : kAllowed) {
    ok = ok && ::seccomp_rule_add(filter.get(), SCMP_ACT_ALLOW, call, 0) == 0;
  }
  for (const int call : kDeadly) {
    ok = ok && ::seccomp_rule_add(filter.get(), SCMP_ACT_KILL_PROCESS, call, 0) == 0;
  }
  // The C library calls these with all signals blocked, where a trap would end the process. After
  // clone3 it tries clone.
  for (const int call : {SCMP_SYS(clone), SCMP_SYS(fork), SCMP_SYS(vfork)}) {
    ok = ok && ::seccomp_rule_add(filter.get(), SCMP_ACT_ERRNO(EPERM), call, 0) == 0;
  }
  ok = ok && ::seccomp_rule_add(filter.get(), SCMP_ACT_ERRNO(ENOSYS), SCMP_SYS(clone3), 0) == 0;
  return ok && allow_if(filter, SCMP_SYS(mmap), 2, PROT_EXEC, 0) &&
         allow_if(filter, SCMP_SYS(mmap2), 2, PROT_EXEC, 0) &&
         allow_if(filter, SCMP_SYS(mprotect), 2, PROT_EXEC, 0) &&
         // The C library's fstat() of some versions.
         allow_if(filter, SCMP_SYS(newfstatat), 3, AT_EMPTY_PATH, AT_EMPTY_PATH) &&
         allow_if(filter, SCMP_SYS(fcntl), 1, kAll, F_GETFL) &&
         allow_if(filter, SCMP_SYS(fcntl64), 1, kAll, F_GETFL) &&
         // syslog(3) looks for a daemon that was not there, each time: nothing to be counted.
         allow_if(filter, SCMP_SYS(socket), 1, kAll, SOCK_DGRAM | SOCK_CLOEXEC,
                  SCMP_ACT_ERRNO(EPERM)) &&
         // A thread that has just started gives itself a name.
         allow_if(filter, SCMP_SYS(prctl), 0, kAll, PR_SET_NAME) &&
         // Waking the session's threads; abort().
         allow_if(filter, SCMP_SYS(tgkill), 0, kAll, static_cast<scmp_datum_t>(::getpid()));
}

// The filter goes to all threads, and no_new_privs with it.
bool filter_calls() {
  const Filter filter(::seccomp_init(kRefused));
  if (filter == nullptr) {
    return false;
  }
  ::seccomp_attr_set(filter.get(), SCMP_FLTATR_ACT_BADARCH, SCMP_ACT_KILL_PROCESS);
  ::seccomp_attr_set(filter.get(), SCMP_FLTATR_CTL_OPTIMIZE, 2);
  // No code of others runs in here that speculation would have to be kept from, and the mitigation
  // that older kernels switch on with a filter costs much of the ciphers' speed.
  ::seccomp_attr_set(filter.get(), SCMP_FLTATR_CTL_SSB, 1);
  return ::seccomp_attr_set(filter.get(), SCMP_FLTATR_CTL_TSYNC, 1) == 0 && add_rules(filter) &&
         install_handler() && ::seccomp_load(filter.get()) == 0;
}

bool drop_capabilities() {
  ::prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0);
  __user_cap_header_struct header = {_LINUX_CAPABILITY_VERSION_3, 0};
  const __user_cap_data_struct none[_LINUX_CAPABILITY_U32S_3] = {};
  return ::syscall(SYS_capset, &header, none) == 0 && ::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0;
}

// What this version of Landlock can forbid: all that is said about files.
std::uint64_t file_rights(long version) {
  std::uint64_t rights = (std::uint64_t{LANDLOCK_ACCESS_FS_MAKE_SYM} << 1) - 1;
#ifdef LANDLOCK_ACCESS_FS_REFER
  rights |= version >= 2 ? LANDLOCK_ACCESS_FS_REFER : 0;
#endif
#ifdef LANDLOCK_ACCESS_FS_TRUNCATE
  rights |= version >= 3 ? LANDLOCK_ACCESS_FS_TRUNCATE : 0;
#endif
  return rights;
}

// No file can be opened or changed by name in this thread any more but, where asked for, /dev/fuse.
bool forbid_files(bool but_fuse) {
  const long version =
      ::syscall(SYS_landlock_create_ruleset, nullptr, 0, LANDLOCK_CREATE_RULESET_VERSION);
  if (version < 1) {
    return false;
  }
  landlock_ruleset_attr attributes = {};
  attributes.handled_access_fs = file_rights(version);
  const UniqueFd rules(
      static_cast<int>(::syscall(SYS_landlock_create_ruleset, &attributes, sizeof attributes, 0)));
  if (!rules.valid()) {
    return false;
  }
  const UniqueFd device(but_fuse ? ::open("/dev/fuse", O_PATH | O_CLOEXEC) : -1);
  if (device.valid()) {
    landlock_path_beneath_attr fuse = {};
    fuse.allowed_access = LANDLOCK_ACCESS_FS_READ_FILE | LANDLOCK_ACCESS_FS_WRITE_FILE;
    fuse.parent_fd = device.get();
    ::syscall(SYS_landlock_add_rule, rules.get(), LANDLOCK_RULE_PATH_BENEATH, &fuse, 0);
  }
  return ::syscall(SYS_landlock_restrict_self, rules.get(), 0) == 0;
}

}  // namespace

bool has_sandbox() {
  return !kHasSanitizers;
}

bool prepare_to_serve() {
  const rlimit none = {0, 0};
  ::setrlimit(RLIMIT_CORE, &none);
  ::signal(SIGPIPE, SIG_IGN);
  return ::prctl(PR_SET_IO_FLUSHER, 1, 0, 0, 0) == 0;
}

Status run_confined(const std::function<void()>& work) {
  std::exception_ptr thrown;
  try {
    std::thread([&] {
      drop_capabilities();
      forbid_files(true);
      try {
        work();
      } catch (...) {
        thrown = std::current_exception();
      }
    }).join();
  } catch (const std::system_error& error) {
    return tl::unexpected(thread_error("cannot start a thread", error));
  }
  if (thrown != nullptr) {
    std::rethrow_exception(thrown);
  }
  return {};
}

std::uint64_t refused_calls() {
  return refused_count.load(std::memory_order_relaxed);
}

std::string enter_sandbox() {
  // Read once, for the log's times.
  ::tzset();
  const std::time_t now = std::time(nullptr);
  std::tm local = {};
  ::localtime_r(&now, &local);

  std::string achieved = drop_capabilities() ? "no capabilities" : "capabilities";
  achieved += forbid_files(false) ? ", Landlock" : ", no Landlock";
  achieved += filter_calls() ? ", filtered system calls" : ", all system calls";
  return achieved;
}

}  // namespace cryptimg
