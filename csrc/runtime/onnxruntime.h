/* The part of onnxruntime's C interface that the operators need. Its functions stand in a table
 * whose order never changes and which newer versions only extend, so that a member is its place. */

#define ORT_VERSION 17    /* the oldest with all that is used here: onnxruntime 1.17 */

typedef struct OrtStatus OrtStatus;                  /* NULL: all is well */
typedef struct OrtValue OrtValue;
typedef struct OrtShape OrtShape;                    /* OrtTensorTypeAndShapeInfo */
typedef struct OrtKernelInfo OrtKernelInfo;          /* a node */
typedef struct OrtKernelContext OrtKernelContext;    /* a node while it runs */
typedef struct OrtSessionOptions OrtSessionOptions;
typedef struct OrtCustomOpDomain OrtCustomOpDomain;
typedef struct OrtLogger OrtLogger;
typedef struct OrtEnv OrtEnv;
typedef struct OrtSession OrtSession;
typedef struct OrtRunOptions OrtRunOptions;
typedef struct OrtMemoryInfo OrtMemoryInfo;
struct OrtCustomOp;

enum { ORT_FAIL = 1, ORT_INVALID_ARGUMENT = 2 };                       /* kinds of errors */
enum { ORT_FLOAT = 1, ORT_UINT8 = 2, ORT_INT8 = 3, ORT_INT32 = 6, ORT_DOUBLE = 11 };  /* types */
enum { ORT_WARNING = 2, ORT_ERROR = 3 };                              /* levels of messages */
enum { ORT_REQUIRED = 0, ORT_OPTIONAL = 1, ORT_VARIADIC = 2 };         /* kinds of inputs */

/* A member stands at its place in the table; what lies between is not looked at. */
typedef union OrtApi {
    void *members[275];
#define MEMBER(place, result, name, ...)                                                           \
    struct {                                                                                       \
        void *before_##name[place];                                                                \
        result (*name)(__VA_ARGS__);                                                               \
    }
#define FIRST(result, name, ...) result (*name)(__VA_ARGS__)
    FIRST(OrtStatus *, CreateStatus, int kind, const char *message);
    MEMBER(2, const char *, GetErrorMessage, const OrtStatus *);
    MEMBER(3, OrtStatus *, CreateEnv, int level, const char *name, OrtEnv **);
    MEMBER(8, OrtStatus *, CreateSessionFromArray, const OrtEnv *, const void *model, size_t,
           const OrtSessionOptions *, OrtSession **);
    MEMBER(9, OrtStatus *, Run, OrtSession *, const OrtRunOptions *, const char *const *names,
           const OrtValue *const *, size_t, const char *const *names_made, size_t, OrtValue **);
    MEMBER(10, OrtStatus *, CreateSessionOptions, OrtSessionOptions **);
    MEMBER(22, OrtStatus *, SetSessionLogSeverityLevel, OrtSessionOptions *, int level);
    MEMBER(24, OrtStatus *, SetIntraOpNumThreads, OrtSessionOptions *, int);
    MEMBER(26, OrtStatus *, CreateCustomOpDomain, const char *name, OrtCustomOpDomain **);
    MEMBER(27, OrtStatus *, CustomOpDomain_Add, OrtCustomOpDomain *, const struct OrtCustomOp *);
    MEMBER(28, OrtStatus *, AddCustomOpDomain, OrtSessionOptions *, OrtCustomOpDomain *);
    MEMBER(49, OrtStatus *, CreateTensorWithDataAsOrtValue, const OrtMemoryInfo *, void *, size_t,
           const int64_t *shape, size_t rank, int type, OrtValue **);
    MEMBER(51, OrtStatus *, GetTensorMutableData, OrtValue *, void **);
    MEMBER(61, OrtStatus *, GetDimensionsCount, const OrtShape *, size_t *);
    MEMBER(62, OrtStatus *, GetDimensions, const OrtShape *, int64_t *, size_t);
    MEMBER(65, OrtStatus *, GetTensorTypeAndShape, const OrtValue *, OrtShape **);
    MEMBER(69, OrtStatus *, CreateCpuMemoryInfo, int allocator, int kind, OrtMemoryInfo **);
    MEMBER(85, OrtStatus *, GetAttribute_float, const OrtKernelInfo *, const char *, float *);
    MEMBER(86, OrtStatus *, GetAttribute_int64, const OrtKernelInfo *, const char *, int64_t *);
    MEMBER(87, OrtStatus *, GetAttribute_string, const OrtKernelInfo *, const char *, char *,
           size_t *);
    MEMBER(88, OrtStatus *, GetInputCount, const OrtKernelContext *, size_t *);
    MEMBER(90, OrtStatus *, GetInput, const OrtKernelContext *, size_t, const OrtValue **);
    MEMBER(91, OrtStatus *, GetOutput, OrtKernelContext *, size_t, const int64_t *, size_t,
           OrtValue **);
    MEMBER(92, void, ReleaseEnv, OrtEnv *);
    MEMBER(93, void, ReleaseStatus, OrtStatus *);
    MEMBER(94, void, ReleaseMemoryInfo, OrtMemoryInfo *);
    MEMBER(95, void, ReleaseSession, OrtSession *);
    MEMBER(96, void, ReleaseValue, OrtValue *);
    MEMBER(99, void, ReleaseShape, OrtShape *);
    MEMBER(100, void, ReleaseSessionOptions, OrtSessionOptions *);
    MEMBER(162, OrtStatus *, GetAttributes_float, const OrtKernelInfo *, const char *, float *,
           size_t *);
    MEMBER(163, OrtStatus *, GetAttributes_int64, const OrtKernelInfo *, const char *, int64_t *,
           size_t *);
    MEMBER(210, OrtStatus *, AddExternalInitializers, OrtSessionOptions *, const char *const *names,
           const OrtValue *const *, size_t);
    MEMBER(230, OrtStatus *, NodeInputCount, const OrtKernelInfo *, size_t *);
    MEMBER(231, OrtStatus *, NodeOutputCount, const OrtKernelInfo *, size_t *);
    MEMBER(232, OrtStatus *, GetInputName, const OrtKernelInfo *, size_t, char *, size_t *);
    MEMBER(244, OrtStatus *, GetNodeName, const OrtKernelInfo *, char *, size_t *);
    MEMBER(246, OrtStatus *, GetLogger, const OrtKernelContext *, const OrtLogger **);
    MEMBER(247, OrtStatus *, LogMessage, const OrtLogger *, int level, const char *message,
           const char *file, int line, const char *function);
    MEMBER(249, OrtStatus *, GetConstantInput, const OrtKernelInfo *, size_t, int *constant,
           const OrtValue **);
    MEMBER(274, OrtStatus *, ParallelFor, const OrtKernelContext *, void (*)(void *, size_t),
           size_t total, size_t batches, void *);
#undef MEMBER
#undef FIRST
} OrtApi;

typedef struct OrtApiBase {
    const OrtApi *(*GetApi)(uint32_t version);    /* Returns an interface; NULL: this onnxruntime
                                                   * is older. */
    const char *(*GetVersionString)(void);        /* Returns the version in words. */
} OrtApiBase;

/* What onnxruntime asks of an operator; the order is fixed, members may be NULL if marked so. */
typedef struct OrtCustomOp {
    /* The version of the interface that it is written for. */
    uint32_t version;
    /* Makes a kernel in the oldest interface. */
    void *(*CreateKernel)(const struct OrtCustomOp *, const OrtApi *, const OrtKernelInfo *);
    /* Returns its name. */
    const char *(*GetName)(const struct OrtCustomOp *);
    /* Returns whose device it runs on. */
    const char *(*GetExecutionProviderType)(const struct OrtCustomOp *);
    /* Returns the type of an input. */
    int (*GetInputType)(const struct OrtCustomOp *, size_t);
    /* Returns how many inputs it has. */
    size_t (*GetInputTypeCount)(const struct OrtCustomOp *);
    /* Returns the type of an output. */
    int (*GetOutputType)(const struct OrtCustomOp *, size_t);
    /* Returns how many outputs it has. */
    size_t (*GetOutputTypeCount)(const struct OrtCustomOp *);
    /* Runs a kernel in the oldest interface. */
    void (*KernelCompute)(void *, OrtKernelContext *);
    /* Ends a kernel. */
    void (*KernelDestroy)(void *);
    /* Returns whether an input may be missing. */
    int (*GetInputCharacteristic)(const struct OrtCustomOp *, size_t);
    /* Returns the same of an output. */
    int (*GetOutputCharacteristic)(const struct OrtCustomOp *, size_t);
    /* Returns where an input has to lie. */
    int (*GetInputMemoryType)(const struct OrtCustomOp *, size_t);
    /* Returns how many inputs a variadic one has at least. */
    int (*GetVariadicInputMinArity)(const struct OrtCustomOp *);
    /* Returns whether these have one type. */
    int (*GetVariadicInputHomogeneity)(const struct OrtCustomOp *);
    /* Returns how many outputs a variadic one has at least. */
    int (*GetVariadicOutputMinArity)(const struct OrtCustomOp *);
    /* Returns whether these have one type. */
    int (*GetVariadicOutputHomogeneity)(const struct OrtCustomOp *);
    /* Makes a kernel. */
    OrtStatus *(*CreateKernelV2)(const struct OrtCustomOp *, const OrtApi *, const OrtKernelInfo *,
                                 void **);
    /* Runs a kernel. */
    OrtStatus *(*KernelComputeV2)(void *, OrtKernelContext *);
    /* May be NULL, as all below. */
    void *InferOutputShape;
    /* Say which versions of the operator it is. */
    void *GetStartVersion, *GetEndVersion;
    /* Say which inputs an output may overwrite or share. */
    void *GetMayInplace, *ReleaseMayInplace, *GetAliasMap, *ReleaseAliasMap;
} OrtCustomOp;
