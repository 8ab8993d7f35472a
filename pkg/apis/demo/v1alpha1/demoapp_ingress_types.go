// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

// IngressSpec says how the app is reached from outside the cluster: by an Ingress, by an
// HTTPRoute, or by both. Each object exists only while the cluster supports its kind.
//
// +kubebuilder:validation:XValidation:rule="has(self.className) || has(self.gateway)",message="className or gateway is required",reason=FieldValueRequired
type IngressSpec struct {
	// host is the DNS name of the app: lower case, at most 253 characters. The first
	// label may be "*". If two DemoApps of a namespace have the same host, the older
	// DemoApp keeps it.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:XValidation:rule="self.matches('^([*][.])?[a-z0-9]([-a-z0-9]*[a-z0-9])?([.][a-z0-9]([-a-z0-9]*[a-z0-9])?)*$')",message="must be a DNS name in lower case, such as shop.example.com or *.example.com"
	// +kubebuilder:validation:XValidation:rule="!self.matches('^[0-9.]+$')",message="must be a DNS name, not an IP address"
	// +required
	Host string `json:"host"`

	// className is the name of the IngressClass. It requests an Ingress, which is
	// created when the IngressClass exists. The Ingress is deleted when the IngressClass has been
	// missing for 5 minutes. Absent means no Ingress.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:XValidation:rule="self.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?([.][a-z0-9]([-a-z0-9]*[a-z0-9])?)*$')",message="must be the name of an IngressClass: lower-case letters, digits, '-' and '.', beginning and ending with a letter or digit"
	// +optional
	ClassName string `json:"className,omitempty"`

	// tls says that the app is reached by https. For an HTTPRoute, tls sets only the
	// scheme of status.externalURL, because a Gateway has its own certificates. Absent
	// means http.
	// +optional
	TLS *IngressTLS `json:"tls,omitempty"`

	// gateway names the Gateway of an HTTPRoute. It requests an HTTPRoute. The HTTPRoute
	// exists only while the cluster has the Gateway API. Absent means no HTTPRoute.
	// +optional
	Gateway *GatewayReference `json:"gateway,omitempty"`
}

// IngressTLS configures TLS for the Ingress.
type IngressTLS struct {
	// secretName is the name of a Secret of type kubernetes.io/tls with the certificate
	// of the Ingress. The Secret is in the namespace of the DemoApp. Absent means the
	// default certificate of the ingress controller.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:XValidation:rule="self.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?([.][a-z0-9]([-a-z0-9]*[a-z0-9])?)*$')",message="must be the name of a Secret: lower-case letters, digits, '-' and '.', beginning and ending with a letter or digit"
	// +optional
	SecretName string `json:"secretName,omitempty"`
}

// GatewayReference names a Gateway of gateway.networking.k8s.io.
type GatewayReference struct {
	// name is the name of the Gateway.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:XValidation:rule="self.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?([.][a-z0-9]([-a-z0-9]*[a-z0-9])?)*$')",message="must be the name of a Gateway: lower-case letters, digits, '-' and '.', beginning and ending with a letter or digit"
	// +required
	Name string `json:"name"`

	// namespace is the namespace of the Gateway. The Gateway must allow routes from the
	// namespace of the DemoApp. Absent means the namespace of the DemoApp.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:XValidation:rule="self.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?$')",message="must be the name of a namespace: lower-case letters, digits and '-', beginning and ending with a letter or digit"
	// +optional
	Namespace string `json:"namespace,omitempty"`
}
