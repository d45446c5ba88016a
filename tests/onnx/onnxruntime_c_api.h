/* What the example of docs/onnx.md needs of onnxruntime's own header, which packages of Python do not
 * have: the functions at their places in the table, whose order never changes. */
#pragma once
#include <cstddef>
#include <cstdint>

struct OrtStatus;
struct OrtEnv;
struct OrtSession;
struct OrtSessionOptions;
struct OrtRunOptions;
struct OrtMemoryInfo;
struct OrtValue;

enum OrtLoggingLevel { ORT_LOGGING_LEVEL_WARNING = 2 };
enum OrtAllocatorType { OrtArenaAllocator = 1 };
enum OrtMemType { OrtMemTypeDefault = 0 };
enum ONNXTensorElementDataType { ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT = 1 };

union OrtApi {
#define MEMBER(place, result, name, ...)                                                           \
    struct {                                                                                       \
        void *before_##name[place];                                                                \
        result (*name)(__VA_ARGS__);                                                               \
    }
    MEMBER(2, const char *, GetErrorMessage, const OrtStatus *);
    MEMBER(3, OrtStatus *, CreateEnv, OrtLoggingLevel, const char *, OrtEnv **);
    MEMBER(7, OrtStatus *, CreateSession, const OrtEnv *, const char *, const OrtSessionOptions *,
           OrtSession **);
    MEMBER(9, OrtStatus *, Run, OrtSession *, const OrtRunOptions *, const char *const *,
           const OrtValue *const *, size_t, const char *const *, size_t, OrtValue **);
    MEMBER(10, OrtStatus *, CreateSessionOptions, OrtSessionOptions **);
    MEMBER(24, OrtStatus *, SetIntraOpNumThreads, OrtSessionOptions *, int);
    MEMBER(29, OrtStatus *, RegisterCustomOpsLibrary, OrtSessionOptions *, const char *, void **);
    MEMBER(49, OrtStatus *, CreateTensorWithDataAsOrtValue, const OrtMemoryInfo *, void *, size_t,
           const int64_t *, size_t, ONNXTensorElementDataType, OrtValue **);
    MEMBER(51, OrtStatus *, GetTensorMutableData, OrtValue *, void **);
    MEMBER(69, OrtStatus *, CreateCpuMemoryInfo, OrtAllocatorType, OrtMemType, OrtMemoryInfo **);
    MEMBER(92, void, ReleaseEnv, OrtEnv *);
    MEMBER(94, void, ReleaseMemoryInfo, OrtMemoryInfo *);
    MEMBER(95, void, ReleaseSession, OrtSession *);
    MEMBER(96, void, ReleaseValue, OrtValue *);
    MEMBER(100, void, ReleaseSessionOptions, OrtSessionOptions *);
#undef MEMBER
};

struct OrtApiBase {
    const OrtApi *(*GetApi)(uint32_t version);
    const char *(*GetVersionString)();
};

extern "C" const OrtApiBase *OrtGetApiBase();
