"""The words of kube-apiserver's messages: those that are in the messages of at least two of its source files."""

from __future__ import annotations

__all__ = ["WORDS"]

_TEXT = """
0 0s 1 63 253 a able abort aborted about above absent absolute accepted acceptednames access accessing accessor
account acquired action active activity actual add added adding addition additional address addresses admin admission
admit aes affinity after again against age aggregated all allocatable allocate allocated allocations allocator allof
allotted allow allowed allows alpha alphabetic alphanumeric already also always amount an and annotation annotations
another any anyof apf api apigroups apis apiserver apiversion appears applied apply applying appsv are aren arguments
array arrays as assign assigned associated at atomic attached attempted attempting attempts attributes audience
audiences audit auth authenticated authentication authorization authorize authorized authorizer authorizing auto
automatic available avoid back backend backends backoff bad base based basic be because become been before begin
behavior being beta between beyond binary bind binding bit bits blank block blocked body bookmark bool boolean both
bound bounds breaks broken budget buffer build building built bundle but by bytes cabundle cache cached cacher caches
caching calculate calculated call called calling calls can canceled cancelled cannot canonical cap capacity case cast
categories caused cbor cel cert certificate certificates chain change changed changes channel character characters
charset check checking checks child cidr cipher claim claims class clean cleaning cleared client clientconfig clients
clientset close closed cluster clusterip clusterips clusterrole code codec collection column columns com comma common
compacted comparison compatible compilation compile compiled compiler compiling complete completed component compute
condition conditions config configmap configsource configuration configurations configure configured conflict
conflicts connect connection connections consider consist consistency consistent constraints construct consume
contacting contain contained container containing contains content contents context continue continuing control
controller conversion convert converted converter convertible converting core correct correctly corresponding corrupt
cors cost could couldn count counter course cpu crd crds create created createstrategy creating creation credentials
crypto csi csr current currently custom customresource data database date debug decision decodable decode decoded
decoding decrease decreased decremented decrypt decryption default defaulting defaults defined definition definitions
dek delay delegated delete deleted deletestrategy deleting deletion denied deny denying depend dependencies deployment
deprecated derive derived description destination details detected determine device devices dialed did didn different
differs digits dir directly directory disable disabled disables disallowed discovery dispatch dns do document does
doesn domain don done dots double down drain drained driver dropping dry dual due duplicate duration during dynamic
each early effect egress either elapsed element elements email embedded empty emulation enable enabled encodable
encode encoded encoder encoding encountered encrypt encrypted encryption end ending endpoint endpoints enforce enough
ensure entire entries entry enum env envelope environment ephemeral equal equalities equality err error errors
established estimated estimation etag etcd evaluate evaluating evaluation evaluator event events evict eviction exact
exactly example exceed exceeded exceeds except excluded excluding exclusive exist existing exists exiting expect
expected expired explicit explicitly expression expressions extended external externaldocs extra factory fail failed
failing fails failure failures fairness falling false families family fatal feature fetching field fieldpath fields
fieldselector file filename files filtered finalizer finalizers find finding finished first fit fix flag flagging
flight followed following foo for forbidden forcing form format formats formatted forward found fresh from fsnotify
full fully func function further future gate gates gauge generate generated generatename generation generic get
getbykey gets getting given go going goroutine got graceful greater group groups groupversion grpc gvks handle handler
handshake happen has hash hasn have header headers health healthy healthz help histogram hold honored hook hooks host
hostname hostnames http https hugepage id identical identified identifier identify identity if ignore ignored ignoring
illegal image immediately immutable impersonating impersonation implement in include included including inclusive
incoming inconsistent index indicated indicates individual inflight info information informer init initial
initialization initialize initialized initializing input insecure inside inspected installed instance instantiate
instantiation instead insufficient int integer interface interfaces internal interval into introduced invalid
invalidated io ip ipaddress ipallocator ips ipv is isn issued it item items its itself job jobs json jsonpatch
jsonpatchtype jsonpath jsonschemas keep key keyid keypair keys kind kms known kube kubeconfig kubernetes label labeled
labels labelselector lacks large larger last latency later latest layer leading leak leaked lease least legacy length
less level like likely limit limited limits line linux list listen listener listening lister listkind listmeta
listtype load loaded loading local locked logging logs long longer look looking lookup loop loopback lower lowercase
made malformed manager mandatory manifest manifests many map mapped mapping maps marked marshal marshaling marshaljson
masters match matches matching max maximum maxitems maxlength maxproperties maxunavailable may mean means measuring
media mediatype members memory message meta metadata metav method metric metrics might min minimum minitems minlength
minproperties minutes mirror misconfigured mismatch missing mixed mode models modes modified modify monitor more most
mount multiple multipleof must mutating mutation mutations mutual mutually name named names namespace namespaced
namespaces native need needs negative negotiation neither network never new newer newfunc next nil no node nodename
nodeport nodes nodeselector noexecute non none nor not notation note now null nullable number numeric obj object
objectmeta objects observed occurred of off old oldobj omitted on once one oneof ones only open openapi openapiv
operation operations operator option optional optionally options or order origin original origins other otherwise out
outofrange output over overflow overhead overlap overload override owner padded paginated pair pairs panic panicked
param parameter parameters paramkind paramref params parent parse parsing part partially passed patch patchtype path
paths pattern peer pem pending per percent percontainer perform performance permissions permitted perpod persist
persisted pkcs plain please plugin plugins plural pod podgroup pods point pointer pointing policy polling populate
port ports positive possible possibly post poststarthook precondition prefer preferred prefix prefixed prefixes
prepare present preserve preserved prevent previous previously printable printer prior priorities priority
priorityclass private probe process processed processing produced program progress properly properties property
protection proto protobuf protocol provide provided provider providers proxy prune public purpose purposes pvc
qualified quantity queue queued queues quota random range rangestream ratio raw rawextension reachable reached read
readiness reading readonly ready readyreplicas readyz reason rebuild received recommended reconcile reconciliation
record recorded recreate recreated recursive ref reference referenced references referencing reflect refresh regex
register registered registering registration regular rejected release releasing reload reloaded reloading reloads
remaining remote remove removed removing repair repairing replace replicas replicaset report request requested
requestinfo requesting requests require required requirements requires reserved resize resized resolution resolve
resolving resource resourceclaims resourcenames resourceprefix resources resourceslice responders response responses
rest restart result resulted results retrieve retrieving retry retrying return returned reuseaddr reuseport rev
revision rfc rights role rolebinding root rotated rule rules run running runtime same satisfied saved scalar scale
scheduling schema schemas scheme scope scoped scopes scripts second secondary seconds secret secrets secure security
see seen segment segments selector selectors self semantic semver send sending sent separated serialization serialized
serializer serializers serve served server servers service serviceaccount servicecidr services serving set setting
settings setup shard short shorter shortnames should shutdown shutting sideeffects sign signature signed signer
signername since sinceseconds sincetime single singlestack singular size skip skipped skipping slash slice sliced
snapshot snapshottable sni so socket some something sorted source spec specific specified specify specifying split
stack stage standard start started starting starts state statefulset static status statusz step still stop stopch
stopped stopping storage store stored storedversions storeelement storing strategy stream streaming strict string
struct structs structural subdomain subject subjects subresource subresources subscript succeed succeeded success
successful successfully such sufficient suffix suggested suitable supply support supported surprising swagger sync
synced syncing system table tableconvertor tag taillines taints take taken target tcp template term terminated
terminating termination test text than that the their then there these they this through time timed timeout times
timestamp title tls to token tokens toleration tolerations tombstone too took top topologykey total tracked trailing
transform transformation transformer transformers transport true truncated truncating try trying two type typed
typemeta types uds uid unable undefined under unexpected unexpectedly unhandled unimplemented unique uniqueitems unix
unknown unless unmarshal unmarshaling unmarshaljson unmatched unreachable unrecognized unsafe unset unsigned
unspecified unstructured unsupported until up update updated updates updatestrategy updating url urls usage use used
user username using utf uuid valid validate validated validating validation validationrule validations validator value
values variable verb verbs verify version versioned versions via volume wait waiting warn warning was wasn watch
watchcache watcher watchers watching watchlist web webhook webhooks were when where whether which while whitelist
widen wildcard will windows wire wiretype with within without won work workers would write writer writing written
wrong wrote xintorstring xlistmapkeys xlisttype xmaptype xvalidations yaml yet you your zero zone
"""
WORDS = frozenset(_TEXT.split())
